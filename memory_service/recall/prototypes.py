"""Example sentences of each kind of data and answer, compared with a question by the encoder.

The phrases of `domain.description.cues` miss what is said in other words ("old typewritten sheets with
coffee marks");
nearness to these sentences catches some of it. They are written for the kinds, not after any competition.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.description.task_inference import Leanings
from memory_service.recall.encoder import Encodes

INPUT_SENTENCES: dict[str, tuple[str, ...]] = {
    "image": (
        "The data are photographs, pictures or camera images stored as JPEG or PNG files.",
        "Medical scans such as x-rays, CT, MRI, microscopy slides or skin photos of patients.",
        "Satellite, aerial or drone pictures of the ground.",
        "Scanned pages, drawings or handwriting as pictures.",
    ),
    "audio": (
        "The data are sound recordings as WAV or MP3 files.",
        "Animal calls, birds or whales heard by microphones and hydrophones.",
        "Spoken words, speech or music clips to listen to.",
    ),
    "text": (
        "The data are written texts: comments, posts, essays, reviews or messages.",
        "Sentences and words of natural language, questions and answers, articles or conversations.",
        "Titles and bodies of documents, tweets or chat replies that somebody wrote.",
    ),
    "tabular": (
        "The data are rows of a table with numeric and categorical columns.",
        "Records of customers, transactions, loans, claims or passengers with their attributes.",
        "Measured properties of materials or molecules in a table of features.",
        "Clinical values and demographic facts of patients as columns.",
    ),
    "series": (
        "The data are signals of sensors sampled over time.",
        "EEG, ECG, accelerometer, seismic or radio measurements as time series.",
        "A history of daily or hourly values from which the future is forecast.",
        "Sequences of measurements, positions or pulses along time or along a molecule.",
    ),
    "video": (
        "The data are video clips or footage of people, players or animals.",
        "Recordings by a camera frame after frame with movements, gestures or actions.",
    ),
    "points": (
        "The data are 3D point clouds measured by lidar or a laser scanner.",
        "Each object is a set of points in space with x, y, z coordinates.",
    ),
    "interactions": (
        "The data are purchases, clicks or ratings of users for items of a catalogue.",
        "Shopping histories of customers and the products they bought.",
    ),
}

ANSWER_SENTENCES: dict[str, tuple[str, ...]] = {
    "class": (
        "Assign each example to one of several classes or species.",
        "Give the probability that something is present, true or positive.",
        "Choose all labels or tags that apply to each example.",
        "Judged by accuracy, F1, log loss or area under the ROC curve.",
    ),
    "value": (
        "Predict a number on a continuous scale for each example.",
        "Predict a price, an amount, a score, a duration or a position.",
        "Judged by root mean squared error or mean absolute error.",
    ),
    "mask": (
        "Mark every pixel that belongs to the object; the answer is a mask.",
        "Outline regions in the image; masks are submitted as run-length encoding.",
        "Judged by the Dice coefficient or the overlap of predicted and true masks.",
    ),
    "boxes": (
        "Find all objects in the image and draw a bounding box around each.",
        "List the positions and sizes of detected objects with confidence.",
        "Judged by average precision of boxes at overlap thresholds.",
    ),
    "picture": (
        "Produce a restored, cleaned or sharper version of each picture.",
        "The answer is an image: remove noise, stains or blur, or change its style.",
        "Predict the brightness of every pixel of the clean image.",
    ),
    "match": (
        "Find pictures that show the same thing as the query picture.",
        "Recognise which individual, place or product it is among many seen before, or a new one.",
    ),
    "sequence": (
        "Write the output text: a translation, a caption, a transcription or a corrected sentence.",
        "Produce a string of characters that describes the input.",
        "Judged by edit distance or overlap of words with the true text.",
    ),
    "span": (
        "Find the words of the passage that answer the question or support the label.",
        "Extract the exact part of the text; the answer is a start and an end.",
    ),
    "token": (
        "Give every token of the text a label in the BIO scheme.",
        "List the entities or spans of the text with their types.",
    ),
    "keypoint": (
        "Give the x and y coordinates of points in the picture.",
        "Judged by the distance between predicted and true landmarks.",
    ),
    "pair": (
        "Say how similar in meaning two phrases or texts are.",
        "Decide whether two questions or sentences mean the same.",
    ),
    "order": (
        "Put the pieces in their correct order.",
        "Rank candidates so that the best ones come first.",
    ),
    "topk": (
        "Recommend items to each user that they are likely to buy next.",
        "Suggest a list of products for every customer.",
    ),
}

TASK_SENTENCES: dict[tuple[str, str], tuple[str, ...]] = {
    ("image", "class"): (
        "Tell which species, breed or product a photo shows.",
        "Decide from a medical scan or x-ray whether a disease is present.",
        "Label each picture with one of many categories of animals, plants or objects.",
        "Which defects or attributes does the photographed thing have?",
        "Small thumbnails of handwritten characters or clothes are sorted into classes.",
        "Does the satellite or radar tile contain the object? Give a probability.",
        "Tissue under the microscope: is it tumour or normal?",
        "Grade the severity of a disease from photographs of the eye or skin.",
        "Camera traps photographed wildlife; name the animal.",
    ),
    ("image", "value"): (
        "Estimate a number such as age, count or score from a photograph.",
        "How many people, animals or cells are in the picture?",
        "How old is the person on the photo or x-ray, in years or months?",
        "Rate how attractive or popular a photo is.",
        "Estimate the weight or height of the thing that is photographed.",
    ),
    ("image", "mask"): (
        "Mark which pixels of the scan belong to the organ or tumour.",
        "Outline buildings, roads, ships or clouds in satellite pictures, pixel by pixel.",
        "Cut the object out of its background: the mask is run-length encoded.",
        "Segment nuclei or cells in microscope pictures.",
        "Find the region of the defect, crack or ink in the image and submit its pixels.",
    ),
    ("image", "boxes"): (
        "Draw rectangles around all cars, people or animals in the photo and name each.",
        "Where on the x-ray are the findings? Give boxes with confidence.",
        "Count and locate plants, fish or cells by bounding boxes.",
        "Self-driving cars must detect surrounding vehicles as boxes.",
        "Detect small objects in pictures of a drone.",
    ),
    ("image", "picture"): (
        "Clean up scanned documents: remove stains and wrinkles.",
        "Make a dark, noisy or blurred photo bright and sharp.",
        "Generate new pictures in the style of a painter.",
        "Colour black-and-white photographs.",
        "Increase the resolution of satellite pictures.",
        "Fill in what clouds hide in the picture.",
    ),
    ("image", "match"): (
        "Which photos in the gallery show the same person, animal, landmark or product as the query?",
        "Recognise an individual whale, dolphin or turtle by its photo, or say that it is new.",
        "Visual search: a customer's snapshot and the same article in a catalogue.",
        "Find duplicate pictures of the same item or place.",
        "Identify the hotel or building from a photo.",
    ),
    ("image", "sequence"): (
        "Write a sentence that describes the photo.",
        "Read the text in the picture and output it as characters.",
        "Translate the drawing of a molecule or a formula into a string.",
        "Write the radiology report for an x-ray.",
        "Transcribe handwriting from scanned pages.",
        "Turn a chart or table image into its underlying data.",
    ),
    ("image", "keypoint"): (
        "Predict the coordinates of facial keypoints in the picture.",
        "Locate the joints of people or animals: x and y of every landmark.",
        "Find anatomical landmarks on the x-ray as points.",
    ),
    ("audio", "class"): (
        "Which bird, frog or insect is heard in the recording?",
        "Which word was spoken in this short clip?",
        "Is there a whale call in the hydrophone clip?",
        "Name the genre or the instrument of a piece of music.",
        "Recognise noises of the city or the household: siren, bark, drill.",
        "Tell a disease from a cough or the sound of breathing.",
        "Which emotion, language or speaker do you hear?",
    ),
    ("text", "class"): (
        "Is the comment toxic, insulting or hateful?",
        "Sort news, messages or reviews into topics or positive and negative.",
        "Which author wrote this passage?",
        "Was the essay written by a person or generated by a language model?",
        "Which of two chatbot replies will people prefer?",
        "Is the e-mail or message spam?",
        "Assign tags to forum questions.",
        "Is the tweet about a real emergency?",
        "Will a request written in a forum succeed?",
    ),
    ("text", "value"): (
        "Score student essays or answers as teachers would.",
        "How readable or difficult is a passage? Give a number.",
        "Rate the quality of questions and answers on a scale.",
        "Predict the stars or points from the words of the review.",
        "How severe is the comment? Predict a continuous score from the text.",
        "Predict a price or salary from the words of an advert.",
    ),
    ("text", "pair"): (
        "Do the two questions ask the same?",
        "How similar in meaning are the two phrases or sentences?",
        "Does the second sentence follow from the first or contradict it?",
        "Is the search result relevant to the query? Grade each pair.",
        "Do two records or product titles name the same thing?",
        "Match a misconception or a skill with a text.",
    ),
    ("text", "token"): (
        "Tag each word of the sentence: person, place, organisation or none.",
        "Extract names of people, places or data sets from the text.",
        "Find personal data such as names, e-mails and phone numbers in documents, token by token.",
        "Mark the spans of an essay that are claim, evidence or conclusion, each with its type.",
    ),
    ("text", "span"): (
        "Find the answer to the question in the article and give its words.",
        "Which part of the tweet shows the feeling?",
        "Mark the phrases of the note that match a symptom.",
        "Answer multiple-choice questions about science.",
        "Give the start and end of the argument in an essay.",
        "Point to the clause of the contract.",
    ),
    ("text", "sequence"): (
        "Translate sentences into another language.",
        "Summarise an article or a conversation in one sentence.",
        "Write numbers, dates and abbreviations as they are spoken.",
        "Correct the grammar of a sentence.",
        "Fill in the word that is missing and give the full sentence.",
        "Generate a title, a reply, a question or a program from text.",
    ),
    ("text", "order"): (
        "Put shuffled sentences, cells or steps back in order.",
        "Rank documents for a search query, the best first.",
        "Order replies or comments by how good or bad they are.",
        "Sort candidate answers so that the right one is at the top.",
    ),
    ("tabular", "class"): (
        "Will the customer default, churn, buy or be satisfied?",
        "Predict survival or illness of a person from age, sex and measured values.",
        "Anonymised numeric features and a binary target.",
        "Is this transaction or click fraudulent?",
        "Predict the class from geographic or chemical attributes in a table.",
        "Which crime, product or outcome category follows from the columns?",
        "Synthetic tabular data with a categorical target.",
    ),
    ("tabular", "value"): (
        "Predict the price of a house, a car or a taxi ride from its attributes.",
        "Predict how much an insurance claim will cost.",
        "Predict a property of a molecule or material from its descriptors.",
        "Predict strength, yield or temperature from a table of measurements.",
        "How long will a trip, a delivery or a machine test take?",
        "Synthetic tabular data with a continuous target.",
        "Decline of a patient's clinical value from a few visits.",
    ),
    ("series", "class"): (
        "Tell the activity of a person from the accelerometer of a watch or phone.",
        "Classify EEG or ECG segments: seizure, arrhythmia or normal.",
        "Is there a gravitational wave or a fault in the signal?",
        "Classify stars by the change of their brightness.",
        "Sleep stages from electrodes overnight.",
        "Which gesture, surface or state do the sensor series belong to?",
    ),
    ("series", "value"): (
        "Forecast sales, demand or visitors for the coming days and weeks.",
        "Predict electricity load, energy or weather for the next hours.",
        "How many cycles or seconds are left until failure, from sensor signals?",
        "Predict stock returns or volatility from market data.",
        "Estimate position, direction or pressure from a sequence of sensor measurements.",
        "Predict a value for each base or step of a sequence.",
    ),
    ("interactions", "topk"): (
        "Recommend products to customers from what they bought.",
        "Which films or songs will a user like? Predict from ratings of many users.",
        "Next click, cart or order in a shopping session.",
        "Suggest hotels or articles to every visitor by their history.",
    ),
    ("video", "class"): (
        "Which action or gesture is performed in the clip?",
        "Is the video manipulated or real?",
        "Recognise signs of a sign language from recorded hand movements.",
        "Did the players touch or collide in the footage?",
        "Tag uploaded videos with topics.",
        "Is there violence in the surveillance footage?",
    ),
    ("points", "class"): (
        "Label each point of a laser scan as ground, building or tree.",
        "Which object is the cloud of 3D points?",
        "Segment indoor scans into chairs, tables and walls.",
    ),
    ("multi", "class"): (
        "Use both the picture and the text of each post or product.",
        "Memes: a picture with words on it, judged together.",
        "Adverts with photos, a description and a table of facts.",
    ),
}
"""By (input, answer): what both together sound like."""

_Name = TypeVar("_Name", bound=Hashable)
_Axis = tuple[tuple[_Name, ...], NDArray[np.intp], NDArray[np.float32]]
"""Names; of each, the places of its sentences, filled up with -1 to the length of the longest; vectors."""

_Axes = tuple[_Axis[str], _Axis[str], _Axis[tuple[str, str]]]
_encoded: WeakKeyDictionary[Encodes, _Axes] = WeakKeyDictionary()
_encoding = threading.Lock()


def sentences() -> list[str]:
    """All example sentences, in the order in which they are encoded."""
    tables: tuple[Mapping[Any, tuple[str, ...]], ...] = (INPUT_SENTENCES, ANSWER_SENTENCES, TASK_SENTENCES)
    return [text for table in tables for texts in table.values() for text in texts]


def leanings_of(encoder: Encodes, vectors: NDArray[np.float32]) -> Leanings:
    """Similarity of a question's passages (q, 384) to each kind, around 0."""
    with _encoding:
        if encoder not in _encoded:
            _encoded[encoder] = (
                _axis(encoder, INPUT_SENTENCES),
                _axis(encoder, ANSWER_SENTENCES),
                _axis(encoder, TASK_SENTENCES),
            )
        inputs, answers, pairs = _encoded[encoder]
    return Leanings(_near(inputs, vectors), _near(answers, vectors), _near(pairs, vectors))


def _axis(encoder: Encodes, sentences: Mapping[_Name, tuple[str, ...]]) -> _Axis[_Name]:
    names = tuple(sentences)
    places = np.full((len(names), max(map(len, sentences.values()))), -1, dtype=np.intp)
    count = 0
    for row, name in zip(places, names, strict=True):
        row[: len(sentences[name])] = np.arange(count, count + len(sentences[name]))
        count += len(sentences[name])
    return names, places, encoder.encode([text for name in names for text in sentences[name]])


def _near(axis: _Axis[_Name], vectors: NDArray[np.float32]) -> dict[_Name, float]:
    """Mean over passages, then of each kind's two nearest sentences, less the mean over kinds."""
    names, places, sentences = axis
    cosines = np.append((vectors @ sentences.T).mean(axis=0), np.float32(-1.0))
    near = np.sort(cosines[places], axis=1)[:, -2:].mean(axis=1)
    return dict(zip(names, (near - near.mean()).tolist(), strict=True))

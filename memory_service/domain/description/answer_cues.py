"""Cue phrases for the kind of answer: class, value, mask, ranking … (weights and forms as in
`domain.description.cues`)."""

from __future__ import annotations

ANSWER_CUES: dict[str, dict[float, str]] = {
    "class": {
        4: (
            "multi class classification, which of these, one of the class, assign each image, attribution "
            "task, image classification, text classification, binary classification, multi label "
            "classification, multiclass classification, classification task, classification problem, classify"
        ),
        3: (
            "likely that, likely to be, names the, which author, chance that, predict the label, assign a "
            "label, assign one of, which class, which category, vote, taxon, taxa, category id, which kind, "
            "present or not, positive or negative, attribute id, classification, classifier, predict the "
            "probability, multi label, multi class, multiclass, multilabel, predict whether, probability "
            "that, predict a probability, binary target, predict the class, predict the category, which "
            "species, probability of, predicted class, determine whether, decide whether, identify the "
            "species, name the, name it, which one is it, which one, sorted into, how likely, which of the, "
            "tell which, fall into, flag, weed out, product type, into class, what kind, will the person, "
            "most likely class"
        ),
        2: (
            "offensive, offend, hateful, toxic, insult, contain any, hold any, present in, a set of "
            "attribute, tag, share of vote, malignancy, sort into, tell whether, say whether, is it a, "
            "which of, presence, absence, authorship, class, category, probability, whether, species, "
            "binary, diagnosis, breed, severity, recognize, recognise, attribution, likelihood, positive, "
            "negative, malignant, present or absent, one hot, predicted label, presence of, absence of, "
            "tell apart, distinguish, ground truth label"
        ),
        1: (
            "label, identify, type, detect, detection, disease, kind, recognition, true or false, healthy, "
            "fraud, grade, yes or no, belong, cancer, normal, abnormal, genus, one of the, kind of, infected"
        ),
    },
    "value": {
        4: (
            "regression, regression task, regression problem, continuous value, predict the price, predict "
            "a value, predict the value, continuous target, real valued, numeric value, scalar"
        ),
        3: (
            "lat lon, latitude, longitude, latitude degree, horizontal metre, coordinate of the phone, "
            "months, regress, predict a number, predict the count, predict the quantity, in dollar, in "
            "month, in year, predict the sale, forecast, forecasting, predict the number of, popularity "
            "score, predict the time, time until, remaining time, predict the amount, formation energy, how "
            "long, predict the score, predict the fare, azimuth, latitude and longitude, degradation, "
            "concentration, predict the age, predict a score, predicted value, predict the overall score, "
            "readability, predict the rating, subjective, pressure, quality rating, assign a score, score "
            "each, one number, how old, how many, figure for, tell the age, how many people, head count, "
            "remaining useful life, remaining life, cycle left, how much, number of each, age of the, age "
            "in, on a scale, from 0 to, slider, star value, count of, predict the electricity, predict the "
            "consumption, strength in, estimate the number"
        ),
        2: (
            "metre, distance, bone age, predicted age, time left, direction, degree of, strength of, hours, "
            "percent of, prognosis, fvc, continuous, price, amount, duration, rating, decline, temperature, "
            "confidence value, demand, consumption, estimate the, quantity, fare, predict the cost, "
            "velocity, energy, holistic, overall grade, essay score, scoring essay, automated essay "
            "scoring, complexity, ease of reading, dollar"
        ),
        1: (
            "score, count, estimate, number of, level, cost, target value, popularity, height, weight, "
            "angle, average, yield, decimal, meter"
        ),
    },
    "mask": {
        5: (
            "run length, run length encoding, rle, encoded pixel, segmentation mask, image segmentation, "
            "semantic segmentation, instance segmentation, segmentation"
        ),
        3: (
            "outline of, mark the pixel, mark every pixel, covered by, draw the outline, trace the, "
            "polygon, area of each, pixels that, mask, pixel level, pixel wise, per pixel, each pixel, "
            "segment the, pixel by pixel, delineate, predicted mask, annotated pixel, set of pixel, pixel "
            "annotation, outline, nonoverlapping mask, pixel label, ink detection, which pixel, cut out, "
            "hand drawn annotation, area of the, pixels are, crack annotation, foreground"
        ),
        1: "pixel, segment, region, contour, boundary, area, overlap",
    },
    "boxes": {
        5: (
            "cuboid, oriented 3d box, rectangle, frame each, box around, bounding box, object detection, "
            "bbox, 3d object detection, bounding boxes, oriented box"
        ),
        3: (
            "heading, yaw, where in the image, find and locate, draw around, place a, top left corner, "
            "corner coordinate, box, xmin, ymin, xmax, x min, prediction string, localize, localise, "
            "localization, detect object, detection of object, each detection, detected object, localise "
            "and classify, localize and classify, bounding volume, center x, detecting object, coordinate "
            "of each, give a rectangle, pascal voc, coco, locate every, localise forbidden, find every, x y "
            "width height, xml"
        ),
        1: ("detect, detection, detector, object, confidence, locate, location, position, width height"),
    },
    "picture": {
        5: (
            "super resolved, psnr, peak signal to noise, ssim, structural similarity, clean sheet, clean "
            "page, restored image, high resolution image, generated picture, denoise, denoising, super "
            "resolution, deblur, inpainting, colorize, colorization, generate image, image generation, "
            "image restoration, clean image, style transfer, image to image, generated image, output tile, "
            "coloured version, restored photo, image of equal size"
        ),
        3: (
            "sharpen, produce a picture, output image, grey level of, grayscale of, dirty clean, remove "
            "stain, wrinkle, style of, restore, clean up, remove noise, remove the noise, pixel intensity, "
            "cleaned, reconstruct the image, reconstruct, gan, noisy image, clean version, intensity of "
            "each pixel, intensity value, stain, painting style, synthesize, psnr on, output picture, turn "
            "the image into, equal size, fid, clear image, into colour, grainy, out of focus, rain removal, "
            "haze removal"
        ),
        1: "pixel value, dirty, noise, noisy, restored, intensity, degraded",
    },
    "match": {
        5: (
            "image retrieval, re identification, reidentification, landmark retrieval, query image, index "
            "image, same individual, individual identification, similar image, near duplicate image, "
            "instance recognition, same person, which catalogue, re id, person re identification, nearest "
            "neighbour among known, gallery of, known individual, same place, match product, match listing, "
            "match item, match advert, find duplicate"
        ),
        3: (
            "which individual, recognise individual, same object, look up, find the same, catalogue of "
            "individual, unknown individual, photo id, retrieval, retrieve, gallery, individual animal, "
            "individual whale, new whale, new individual, image matching, same hotel, same product, same "
            "landmark, product matching, matching image, face recognition, identity, closest first, rank 1, "
            "from our catalogue, other camera, look alike product, which hotel, which landmark, which "
            "whale, ids ordered by, same item, same listing, duplicate listing, duplicate product"
        ),
        1: ("match, matching, individual, identification, hotel, landmark, fluke, duplicate, similar"),
    },
    "sequence": {
        5: (
            "latex, write the sentence, output the text, read the formula, text out, translated, machine "
            "translation, image caption, captioning, translate, transcription, inchi, sequence to sequence, "
            "seq2seq, missing word, generate the text, text generation, summarization, text normalization, "
            "spoken form, sentence correction, transliteration, read the text, ocr, generate the report, "
            "free form english, english rendering, transliterated, produce the gist, one line gist, "
            "headline generation, generated text, instruction pair, instruction tuning"
        ),
        3: (
            "deleted word, put it back, pronounce, spoken, reads aloud, transcribed, write a, string of, "
            "written as, corrected, correction, complete the sentence, substitution, insertion, "
            "translation, caption, transcribe, summarize, normalize, normalization, rewrite, fill in, "
            "insert the word, generate a sentence, output sentence, removed word, original sentence, "
            "verbalize, written form, smiles, decipher, spell out, chemical identifier, convert text, "
            "impute, full sentence, text string, as a string, gist, summarise, return the english, free "
            "form, generate the, describe the image, describes the picture, letters in"
        ),
        1: ("convert, generate, generation, string, output text, reconstruct, expression, imputation"),
    },
    "span": {
        5: (
            "multiple choice, question about a, answer is in, find the answer, begin and end, character "
            "offset, exact passage, substring of, question answering, answer span, selected text, short "
            "answer, long answer, character span, answer start, span of text, extractive, token span, span, "
            "copied verbatim, start and end character, point to the clause, verbatim, best answer"
        ),
        3: (
            "which word, part of the text, quote, cite, marked word, excerpt that, start and end, long and "
            "short answer, extract, extraction, start token, end token, support the sentiment, answer the "
            "question, answer question, substring, word or phrase, part "
            "of the tweet, context paragraph, answer to real, start position, highlight, "
            "that answer, answer text, context, provided question, clause"
        ),
        1: "answer, passage, character index, exact phrase, phrase, location of the answer",
    },
    "token": {
        5: (
            "named entity, entity recognition, ner, bio tag, bio label, label each token, tag each token, "
            "each token, "
            "every token, token level, token classification, sequence labelling, sequence labeling, each "
            "word, "
            "part of speech, label of every word, personally identifiable information, pii, tag every word, "
            "per token, token by token, bio notation, in bio, de identification, bio format, bio scheme, iob"
        ),
        3: (
            "entity type, entity, mention, discourse element, word by word, mark name, tokenised document, "
            "token label, redact, tag word, span and class, labelled span, span with a class, trailing "
            "whitespace"
        ),
        1: "token, annotated span, span",
    },
    "keypoint": {
        5: (
            "keypoint, key point, landmark point, facial landmark, anatomical landmark, facial keypoint, "
            "body joint, "
            "pose estimation, joint coordinate, landmark coordinate, coordinate of the landmark, human pose, "
            "animal pose, landmark localisation, landmark localization, skeleton joint, fiducial"
        ),
        3: (
            "x and y position of, x and y coordinate, x y coordinate, pixel position, pixel coordinate, "
            "position of the eye, "
            "corner of the, nose, joint, visibility flag, landmark, anatomical point, vertebral corner"
        ),
        1: "coordinate, point, position",
    },
    "pair": {
        5: (
            "similar in meaning, in meaning, how similar, semantic similarity, duplicate question, question "
            "pair, paraphrase, phrase similarity, sentence pair, phrase to phrase, pair of question, "
            "similarity score, text similarity, same meaning, textual entailment, semantically similar, "
            "natural language inference, premise, hypothesis, same intent, two message, two customer "
            "message, both mean the same, follow from"
        ),
        3: (
            "two sentence, two text, two question, two phrase, mean the same, meaning of two, alike, how "
            "close, similarity, entailment, contradiction, relevance score, search relevance, pair of "
            "sentence, pair of text, pair of phrase, semantic match, duplicate, equivalent, contradict, "
            "pair id, to each other, is same, pair"
        ),
        2: "given two, same thing, asks for the same",
        1: "similar, relevance, relevant, anchor, matching, related",
    },
    "order": {
        5: (
            "sort, put in order, put back in order, come first, right order, sequence of cell, arrange, "
            "learning to rank, correct order, ranking task, order of the cell, reading order, rank the "
            "document, sort the, cell order, predict the order, ordering, rank correlation of order, mixed "
            "up, restore the order, put the candidate, candidates in the order"
        ),
        3: (
            "candidate, those that, best first, descending relevance, sorting, place of each, rank "
            "candidate, rank the, shuffled, original order, re rank, search result, ordered list, order of, "
            "document ranking, permutation, inversion, in an order, in the order, most useful first"
        ),
        2: "at the top, order in which",
        1: "rank, ranking, order, ordered, sorted, swap, position",
    },
    "topk": {
        5: (
            "next order, products bought, likely to buy, buy next, suggest item, what to buy, list of "
            "product, recommendation, recommend, recommender system, personalized recommendation, product "
            "recommendation, up to 12 product, next purchase, will like, recommender, user will like, items "
            "for each user"
        ),
        3: (
            "bought earlier, shopper, list product, product id, item to show, watch next, purchase history, "
            "will purchase, will buy, which product, which item, playlist continuation, ranked list of "
            "item, next item, top item, personalized, list of item, most likely to purchase, for each user, "
            "for each viewer, for each customer, for each session, would like, click next, next click, cart "
            "addition, up to 20"
        ),
        1: "item, user, customer, suggest, preference, space separated list, article",
    },
}

ANSWER_PRIOR = {"class": 1.5, "value": 0.5}
"""One that names no kind of answer nearly always asks for a class."""

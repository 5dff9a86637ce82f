"""Cue phrases for the input: images, text, a table … (weights and forms as in `domain.description.cues`)."""

from __future__ import annotations

INPUT_CUES: dict[str, dict[float, str]] = {
    "image": {
        4: (
            "herbarium, photographed, camera image, fine grained image, digital photo, image file, image "
            "classification, chest x ray, ct scan, camera trap, satellite image, satellite imagery, mri "
            "scan, computer vision, fundus, whole slide image, aerial image, image recognition, radiograph, "
            "mammogram, mammography, dermoscopic, herbarium sheet, drone image, aerial photo, image id, "
            "jpeg image, imagenet, snapshot, screenshot, x ray image, still image, chest radiograph, mri, "
            "ct image, image quality, pet scan, optical coherence tomography, colour image, color image, "
            "photo of, photos of, picture of"
        ),
        3: (
            "jpeg, jpg, png, photographic, silhouette, scanned, grayscale, greyscale, painting, poster, "
            "selfie, remote sensing, ultrasound, endoscopy, biopsy slide, super resolved, low resolution, "
            "image, photo, photograph, dicom, microscopy, histopathology, pathology slide, imagery, x ray, "
            "thumbnail, microscope, imaging, radiology, picture, retinal, pixel, drawing, artwork, "
            "handwritten"
        ),
        2: (
            "patch, cell image, satellite radar, depicted, colour channel, color channel, pressed sheet, "
            "print, lens, photographer, aerial, drone, satellite, infrared, stained, plant specimen, "
            "spectral band, viewpoint, tiff, tif, visual, bounding box, camera, scan, rgb, channel image, "
            "tomography, ct, slice, nifti, convolutional, resolution, radar image, seismic image, visible, "
            "scene, crop, cropped, portrait, sketch, raster, canvas, tile, black and white, blurry, "
            "blurred, selfies, stroke, street sign, still, looks like, image folder, microscope slide, "
            "occlusion, background, catalogue photo, optical, telescope image, dashcam"
        ),
        1: (
            "specimen, tissue, lesion, leaf, microscopic, look alike, segmentation mask, mask, face, "
            "exposure, appearance, lighting, camera view, museum"
        ),
    },
    "audio": {
        5: (
            "voice recording, music genre, speech clip, spectrogram of the sound, loudspeaker, sound clip, "
            "second clip, audio, wav, wav file, audio file, audio clip, sound recording, audio recording, "
            "bird song, birdsong, speech recognition, speech command, hydrophone, acoustic, soundscape, "
            "bird sound, underwater recording, siren, dog bark, bark, buzz, cough, snore, musical "
            "instrument, animal sound, heart sound, lung sound, chirping, hum of, jackhammer, field "
            "recording, music track, spoken digit, tone of voice"
        ),
        3: (
            "calling, chirp, song of bird, sung, spoken, hum, ogg, decibel, hearing, sound, microphone, "
            "flac, mp3, aiff, aif, utterance, khz, noise recording, spoken word, spoken command, "
            "vocalization, loudness, listen, hear, heard, whale call, upcall, bioacoustic, sing, singing, "
            "croak, howl, whistle, melody, drum, accent, echolocation, pitch, wingbeat, audible, audio "
            "track, instrument, frog, loud"
        ),
        1: ("recording, recorded, spectrogram, speech, noise, speaker, call, song, clip, voice, music, mel"),
    },
    "text": {
        4: (
            "written answer, written essay, student essay, multiple choice, plain english, free form text, "
            "web page text, legal text, news headline, product title, search query, search term, natural "
            "language, natural language processing, nlp, essay, tweet, text classification, language model, "
            "sentence, sentiment, toxic comment, toxicity, question answering, wikipedia comment, reddit, "
            "excerpt, text sample, free text, written text, corpus, llm, large language model, short "
            "answer, text normalization, sms, spam, premise, hypothesis, quiz, quiz question, clickbait, "
            "docstring, source code, plain text, contract clause, written by, wikipedia article, email, "
            "news article, customer message, question pair, question text, text of, instruction pair, "
            "instruction tuning, llama 2, llama 3, qwen, lo ra, lora, qlora"
        ),
        3: (
            "forum remark, forum post, offensive, remark, reply, text, comment, paragraph, phrase, insult, "
            "linguistic, chatbot, stack exchange, prose, literary, horror story, question title, question "
            "body, conversation, patent, transcript, insincere, newsgroup, quora, notebook, markdown cell, "
            "clinical note, patient note, word count, grammar, grammatical, tag, code cell, message, "
            "clause, lawyer, contract, dictionary, headline, blog, opinion, lyric, summary, summarised, "
            "summarize, gist, translated, scholar, embedding vector, glove, wrote, web text, recipe, "
            "trivia, encyclopedia, tokenizer, tokenised"
        ),
        2: (
            "wrong answer, misconception, commenter, chat, dialogue, dialog, letter, story, novel, poem, "
            "wikipedia, translation, translator, word, question, passage, review, post, language, author, "
            "prompt, keyword, title, writing, vocabulary, written, english, abusive, document, quote, "
            "wording, search engine, name of the author, slang, complaint"
        ),
        1: (
            "answer, token, article, query, response, character, annotator, twitter, forum, editor, reader, "
            "read"
        ),
    },
    "tabular": {
        5: (
            "tabular, tabular playground, tabular data, feature distribution, anonymized feature, "
            "anonymized variable"
        ),
        3: (
            "table, spreadsheet column, feature column, tabular feature, lattice constant, bandgap, "
            "formation energy, insurer, borrower, tenant, employee, categorical feature, categorical "
            "variable, numeric feature, numerical feature, continuous feature, continuous variable, deep "
            "learning model trained, ctgan, binary feature, synthetic data, synthetically generated, "
            "xgboost, gradient boosting, cartographic, customer id, house price, spacegroup, playground "
            "series, transaction, structured data, lattice, marital status, occupation, job, balance, "
            "mileage, questionnaire, account balance, ingredient, mixture, bathroom, bedroom, square feet, "
            "year built, anonymized, feature variable, numeric column, numerical column, categorical "
            "column, each row, demographics, advert"
        ),
        2: (
            "categorical, loan, credit, insurance, fare, passenger, customer, policy, demographic, crystal, "
            "molecule, material, lab value, blood test, clinical data, survey, spreadsheet, coordinate, "
            "pickup, dropoff, taxi, real estate, sale price, bank, census, coupling, atom, compound, soil "
            "type, wilderness area, elevation, missing value, default, household, chemical property, coded, "
            "home, property, tax, region, education, subscriber, claim, churn, bidder, applicant, diameter"
        ),
        1: (
            "feature, attribute, variable, age, gender, price, income, measurement, sale, product, numeric, "
            "baseline, descriptor, statistic"
        ),
        0.5: "column, row, csv, record, field, per row",
    },
    "series": {
        5: (
            "scalp, physiological signal, seismic sensor, sensor reading, meter reading, lap time, "
            "smartphone sensor, imu, vital sign, time series, eeg, ecg, electroencephalography, "
            "electrocardiogram, accelerometer, gyroscope, gnss, waveform, inertial, gravitational wave, "
            "seismogram, multivariate time, wearable, actigraphy, light curve, turbofan, polysomnography, "
            "three axis, acceleration, remaining useful life, sleep stage, smartwatch, hourly load, order "
            "book, next hour, next 24 hour, time series api, passband, heart rate, photoplethysmography, "
            "emg, wrist, run to failure"
        ),
        3: (
            "trace, seizure, magnetometer, heartbeat, glucose, pseudorange, satellite navigation, antenna, "
            "voltage, electricity, vibration, radio signal, particle hit, light pulse, arrival time, "
            "neutrino, photon, demand forecasting, stock, market data, sensor, signal, time step, timestep, "
            "forecast, forecasting, pulse, sensor data, breath, ventilator, spectrogram, raw signal, mrna, "
            "rna, nucleotide, base pair, sampling rate, time window, trajectory, volcano, interferometer, "
            "telemetry, seismometer, hz, flux, megawatt, kwh, next day, each hour, every hour, per hour, "
            "rainfall, weather station, channel per cycle, cycle, electrode, brightness, solar, wind power, "
            "datetime, weekday, seasonality, holiday, measured every, sampled at, rotation, telescope, "
            "revenue history, time ordered measurement, motion, lag"
        ),
        2: (
            "sequence, hourly, daily, detector, seconds of data, minute segment, over time, time stamped, "
            "timestamp, frequency, sampled, horizon, sliding window, temporal, gps, positioning, seismic, "
            "engine, turbine, watch, next week, channel, pump, battery, tide, demand, drift"
        ),
        1: (
            "second, minute, hour, day, week, event, reading, previous, history, historical, log, future, "
            "segment, load, consumption"
        ),
    },
    "video": {
        5: (
            "hand gesture, sign language, colour video, camera footage, body movement, depth video, video, "
            "video clip, video classification, footage, mp4, deepfake, action recognition, gesture "
            "recognition, cctv, surveillance, head mounted, youtube, filmed action, film clip, webcam "
            "recording, egocentric, videos of, video level, movie scene"
        ),
        3: (
            "depth camera, rgb clip, joint position, replay, camera view, movement of person, kinect, "
            "gesture, sideline, endzone, broadcast, movie clip, video frame, frame by frame, optical flow, "
            "filmed, camcorder, action, uploaded, video sequence, sign for, gait"
        ),
        1: "frame, clip, skeleton, play, player, depth map, tracking data, fps, body pose",
    },
    "points": {
        5: (
            "laser scanner, laser scanning, las file, 3d model, cad model, xyz coordinate, airborne laser, "
            "point cloud, point clouds, pointnet, lidar point, 3d point, point set, lidar, return number, "
            "laz, las, measured position, position in space, points in space, laser pulse, scanner return, "
            "airborne scan, point wise"
        ),
        3: (
            "each point, laser return, sweep, range scan, scanned object, laser scan, voxel, mesh, 3d "
            "shape, 3d scan, lidar sweep, scanner, each return, facade, x y z, intensity and position, "
            "scanned street, terrain scan, per point, point label"
        ),
        1: "3d, depth sensor, surface, geometry",
    },
    "interactions": {
        5: (
            "grocery order, shopper, online shop, order history, next order, listening session, customer "
            "bought, recommendation, recommender, recommend, recommender system, collaborative filtering, "
            "product recommendation, item recommendation, user item, next item, viewer, withheld rating, "
            "ratings of user, users and item, users and the item, next click, cart addition, e commerce "
            "session, customers who, users who, implicit feedback"
        ),
        3: (
            "bought, shopping, watched, movie rating, listener, basket, viewing history, purchase history, "
            "purchase next, will purchase, will buy, playlist, session based, add to cart, clicked item, "
            "customer purchase, listening history, interaction, click through, browsing, watch history, "
            "rated, clicked, subscriber history, user session, add to the cart, streaming, watched by, "
            "their past, past purchase"
        ),
        1: "item, user, purchase, session, click, cart, catalog, e commerce, article id, customer",
    },
    "multi": {
        5: (
            "multimodal data, image and text, text and image, photo and text, photo and a title, photo and "
            "title, both the image and the, both image and, both photo and, picture and the text, picture "
            "and text, image text and tabular, images and description, image and title, combined with the "
            "image, combine image, combining image, picture with word, meme, image with caption and, text "
            "image and, caption printed, image and the text, both picture and"
        ),
        2: "multimodal, multi modal, modality, combined",
    },
}

INPUT_PRIOR = {"tabular": 1.5}
"""A description that names no kind of data is nearly always of a table."""

# ruff: noqa: E501 - lines as trainers print them
"""What trainers print, with the right answer of each: written after public logs of these trainers, before the
parser was looked at. Figures are our own.

An answer names what must come out of the whole log:
    epochs     finished epochs, over all folds        folds    folds seen, where the log has any
    last       fields of the last finished epoch      step     (step, of) of the last progress line
    step_seconds, eta_seconds, memory_gib, samples_per_second: of the last line that tells it
    metric_name   as printed, in any spelling         submission   whether one was noted
"""

from typing import Any

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


def _mmdet2() -> str:
    lines = []
    for epoch in (1, 2):
        for step in (50, 100):
            loss = 1.2 / epoch - step / 1000
            lines.append(
                f"2026-01-07 10:0{epoch}:{step // 2:02d},311 - mmdet - INFO - Epoch [{epoch}][{step}/120]\tlr: 2.000e-02, eta: 3:1{epoch}:05, time: 0.455, data_time: 0.012, memory: 5213, loss_rpn_cls: 0.0213, s0.acc: 96.8945, loss_bbox: 0.2, loss: {loss:.4f}, grad_norm: 3.1"
            )
        lines.append(f"2026-01-07 10:0{epoch}:58,120 - mmdet - INFO - Saving checkpoint at {epoch} epochs")
        lines.append("[>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>] 500/500, 21.3 task/s, elapsed: 23s, ETA:     0s")
        lines.append(
            f"2026-01-07 10:0{epoch}:59,130 - mmdet - INFO - Epoch(val) [{epoch}][500]\tbbox_mAP: 0.2{epoch}40, bbox_mAP_50: 0.4{epoch}10, bbox_mAP_75: 0.2220, bbox_mAP_copypaste: 0.2{epoch}4 0.4{epoch}1 0.222"
        )
    return "\n".join(lines) + "\n"


def _mmseg() -> str:
    return """2026-01-07 11:00:10,540 - mmseg - INFO - Iter [50/40000]\tlr: 9.998e-03, eta: 4:26:12, time: 0.401, data_time: 0.008, memory: 9873, decode.loss_ce: 1.2669, decode.acc_seg: 41.8965, aux.loss_ce: 0.4904, aux.acc_seg: 36.9658, loss: 1.7573
2026-01-07 11:00:30,540 - mmseg - INFO - Iter [100/40000]\tlr: 9.997e-03, eta: 4:25:50, time: 0.400, data_time: 0.006, memory: 9873, decode.loss_ce: 1.1371, decode.acc_seg: 51.8680, aux.loss_ce: 0.4175, aux.acc_seg: 46.7662, loss: 1.5546
2026-01-07 11:01:10,540 - mmseg - INFO - Saving checkpoint at 100 iterations
2026-01-07 11:02:10,540 - mmseg - INFO - per class results:
2026-01-07 11:02:10,541 - mmseg - INFO -
+------------+-------+-------+
|   Class    |  IoU  |  Acc  |
+------------+-------+-------+
|    road    | 91.23 | 96.11 |
+------------+-------+-------+
2026-01-07 11:02:10,555 - mmseg - INFO - Iter(val) [500]\taAcc: 0.8124, mIoU: 0.3712, mAcc: 0.4661
2026-01-07 11:02:30,540 - mmseg - INFO - Iter [150/40000]\tlr: 9.995e-03, eta: 4:26:40, time: 0.402, data_time: 0.007, memory: 9901, decode.loss_ce: 1.0, decode.acc_seg: 55.2785, aux.loss_ce: 0.4, aux.acc_seg: 46.3988, loss: 1.4000
"""


def _mmengine() -> str:
    lines = []
    for epoch in (1, 2):
        lines += [
            f"2026/01/07 12:0{epoch}:{step // 4:02d} - mmengine - INFO - Epoch(train)   [{epoch}][{step:4d}/210]  base_lr: 1.0000e-03 lr: 9.7e-04  eta: 1 day, 2:12:01  time: 0.3012  data_time: 0.0087  memory: 7120  grad_norm: 12.1  loss: {3 / epoch - step / 1000:.4f}  loss_cls: 1.2"
            for step in (100, 200)
        ]
        lines.append(f"01/07 12:0{epoch}:55 - mmengine - INFO - Saving checkpoint at {epoch} epochs")
        lines.append(
            f"2026/01/07 12:0{epoch}:56 - mmengine - INFO - Epoch(val)   [{epoch}][ 50/500]    eta: 0:00:27  time: 0.0564  data_time: 0.0002  memory: 1445  "
        )
        lines.append(f"2026/01/07 12:0{epoch}:57 - mmengine - INFO - bbox_mAP_copypaste: 0.3{epoch}1 0.5 0.4")
        lines.append(
            f"2026/01/07 12:0{epoch}:58 - mmengine - INFO - Epoch(val) [{epoch}][500/500]    coco/bbox_mAP: 0.3{epoch}10  coco/bbox_mAP_50: 0.5210  data_time: 0.0011  time: 0.0562"
        )
    return "\n".join(lines) + "\n"


def _detectron2() -> str:
    lines = ["[01/07 10:00:00 d2.engine.train_loop]: Starting training from iteration 0"]
    lines += [
        f"[01/07 10:0{k // 8}:{k * 7 % 60:02d} d2.utils.events]:  eta: 5:0{k}:12  iter: {20 * k + 19}  total_loss: {2.1 - k / 10:.3f}  loss_cls: 0.7953  loss_box_reg: 0.41    time: 0.3512  last_time: 0.3498  data_time: 0.0121  last_data_time: 0.0099   lr: 0.0002  max_mem: 4231M"
        for k in range(6)
    ]
    return (
        "\n".join(
            [
                *lines,
                "[01/07 10:05:00 d2.evaluation.testing]: copypaste: Task: bbox",
                "[01/07 10:05:00 d2.evaluation.testing]: copypaste: AP,AP50,AP75,APs,APm,APl",
                "[01/07 10:05:00 d2.evaluation.testing]: copypaste: 31.4512,52.1,33.2,15.0,34.1,41.2",
            ]
        )
        + "\n"
    )


def _nnunet2() -> str:
    lines = []
    for epoch in range(5):
        lines += [
            f"2026-01-07 08:{2 * epoch:02d}:00.318420: ", f"2026-01-07 08:{2 * epoch:02d}:00.319100: Epoch {epoch} ",
            f"2026-01-07 08:{2 * epoch:02d}:00.319900: Current learning rate: {0.01 - epoch / 1e5:.5f} ",
            f"2026-01-07 08:{2 * epoch + 1:02d}:51.101200: train_loss {-0.1 - epoch / 10:.4f} ",
            f"2026-01-07 08:{2 * epoch + 1:02d}:51.102200: val_loss {-0.2 - epoch / 10:.4f} ",
            f"2026-01-07 08:{2 * epoch + 1:02d}:51.103200: Pseudo dice [np.float32(0.{epoch + 3}), nan, np.float32(0.{epoch + 5})] ",
            f"2026-01-07 08:{2 * epoch + 1:02d}:51.104200: Epoch time: 111.78 s ",
            f"2026-01-07 08:{2 * epoch + 1:02d}:51.105200: Yayy! New best EMA pseudo Dice: 0.{epoch + 2}1 ",
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _nnunet1() -> str:
    lines = []
    for epoch in range(4):
        lines += [
            f"2026-01-07 09:{3 * epoch:02d}:44.207069: ", f"epoch:  {epoch} ",
            f"2026-01-07 09:{3 * epoch + 1:02d}:49.625515: train loss : {-0.4 - epoch / 10:.4f} ",
            f"2026-01-07 09:{3 * epoch + 1:02d}:59.688008: validation loss: {-0.45 - epoch / 10:.4f} ",
            f"2026-01-07 09:{3 * epoch + 1:02d}:59.688808: Average global foreground Dice: [0.{epoch + 4}, 0.{epoch + 2}] ",
            f"2026-01-07 09:{3 * epoch + 1:02d}:59.688904: (interpret this as an estimate for the Dice of the different classes. This is not exact.) ",
            f"2026-01-07 09:{3 * epoch + 2:02d}:00.857095: lr: 0.00993 ",
            f"2026-01-07 09:{3 * epoch + 2:02d}:01.290960: done, saving took 0.43 seconds ",
            f"2026-01-07 09:{3 * epoch + 2:02d}:01.343246: This epoch took 137.136132 s", "",
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _swin() -> str:
    head = "[2026-01-07 17:0{}:09 swin_small_patch4_window7_224] (main.py {}): INFO "
    lines = []
    for epoch in (3, 4):
        lines += [
            head.format(epoch, 226)
            + f"Train: [{epoch}/30][{step}/640]\teta 0:0{4 - step // 160}:04 lr 0.000700\ttime 0.3279 (0.3612)\tloss {6.0 - epoch / 10:.4f} (6.6041)\tgrad_norm 11.6209 (11.6209)\tmem 14764MB"
            for step in (0, 320, 630)
        ]
        lines.append(head.format(epoch, 230) + f"EPOCH {epoch} training takes 0:03:51")
        lines.append(
            head.format(epoch, 271)
            + "Test: [0/83]\tTime 2.219 (2.219)\tLoss 1.4268 (1.4268)\tAcc@1 79.375 (79.375)\tAcc@5 100.000 (100.000)\tMem 14764MB"
        )
        lines.append(head.format(epoch, 277) + f" * Acc@1 7{epoch}.125 Acc@5 92.410")
        lines.append(
            head.format(epoch, 146) + f"Accuracy of the network on the 50000 test images: 7{epoch}.1%"
        )
        lines.append(head.format(epoch, 148) + "Max accuracy: 74.13%")
    return "\n".join(lines) + "\n"


def _metric_logger() -> str:
    lines = []
    for epoch in (0, 1):
        lines += [
            f"Epoch: [{epoch}]  [{step:4d}/312]  eta: 0:02:1{step // 100}  lr: 0.000100  loss: 2.{9 - epoch}412 (3.1011)  time: 0.4420  data: 0.0003  max mem: 8213"
            for step in (0, 100, 311)
        ]
        lines.append(f"Epoch: [{epoch}] Total time: 0:02:18 (0.4431 s / it)")
        lines.append(f"Averaged stats: lr: 0.000100  loss: 2.{8 - epoch}012 (3.0011)")
        lines.append(
            "Test:  [ 0/98]  eta: 0:00:40  loss: 1.1210 (1.1210)  acc1: 75.0000 (75.0000)  acc5: 93.7 (93.7)  time: 0.4121  data: 0.3  max mem: 8213"
        )
        lines.append("Test: Total time: 0:00:21 (0.2142 s / it)")
        lines.append(f"* Acc@1 6{epoch}.210 Acc@5 85.100 loss 1.{7 - epoch}12")
        lines.append(f"Accuracy of the network on the 50000 test images: 6{epoch}.2%")
    return "\n".join(lines) + "\n"


def _timm() -> str:
    lines = []
    for epoch in (0, 1):
        lines += [
            f"Train: {epoch} [{step:4d}/400 ({step // 4:3d}%)]  Loss: 6.{9 - epoch}1 (6.95)  Time: 0.312s,  820.51/s  (0.320s,  800.00/s)  LR: 1.000e-05  Data: 0.012 (0.046)"
            for step in (0, 200, 399)
        ]
        lines.append(
            f"Test: [  48/48]  Time: 0.132 (0.232)  Loss:  5.{9 - epoch}01 ( 6.{7 - epoch}10)  Acc@1:   3.391 (  1{epoch}.512)  Acc@5:   7.172 (  9.172)"
        )
        lines.append("Current checkpoints:\n ('./output/train/checkpoint-0.pth.tar', 10.512)")
    return "\n".join(lines) + "\n"


def _maskrcnn() -> str:
    return "".join(
        f"2026-01-07 07:5{k}:47,793 maskrcnn_benchmark.trainer INFO: eta: 1 day, 2:1{k}:05  iter: {20 * k + 20}  loss: {2.3 - k / 10:.4f} (2.9695)  loss_cls: 0.5318 (0.5656)  loss_reg: 1.1120 (1.7430)  time: 0.7022 (0.7111)  data: 0.0336 (0.0301)  lr: 0.000833  max mem: 5004\n"
        for k in range(5)
    )


def _hf_dicts() -> str:
    lines = []
    for epoch in (1, 2, 3):
        lines.append(
            f"{{'loss': {1.4 - epoch / 5:.4f}, 'grad_norm': 3.1, 'learning_rate': 1.6e-05, 'epoch': {epoch - 0.5}}}"
        )
        lines.append(
            f"{{'loss': {1.3 - epoch / 5:.4f}, 'grad_norm': 3.1, 'learning_rate': 1.2e-05, 'epoch': {epoch}.0}}"
        )
        lines.append(
            f"{{'eval_loss': {1.1 - epoch / 10:.4f}, 'eval_f1': 0.7{epoch}1, 'eval_runtime': 12.4, 'eval_samples_per_second': 187.2, 'eval_steps_per_second': 11.7, 'epoch': {epoch}.0}}"
        )
    lines.append(
        "{'train_runtime': 906.0, 'train_samples_per_second': 26.49, 'train_steps_per_second': 0.828, 'train_loss': 0.9161, 'epoch': 3.0}"
    )
    return "\n".join(lines) + "\n"


HF_HTML = """
    <div>

      <progress value='1125' max='1125' style='width:300px; height:20px; vertical-align: middle;'></progress>
      [1125/1125 12:30, Epoch 3/3]
    </div>
    <table border="1" class="dataframe">
  <thead>
 <tr style="text-align: left;">
      <th>Epoch</th>
      <th>Training Loss</th>
      <th>Validation Loss</th>
      <th>Accuracy</th>
    </tr>
  </thead>
  <tbody>
    <tr>
      <td>1</td>
      <td>No log</td>
      <td>0.512345</td>
      <td>0.741000</td>
    </tr>
    <tr>
      <td>2</td>
      <td>0.601200</td>
      <td>0.452345</td>
      <td>0.781000</td>
    </tr>
    <tr>
      <td>3</td>
      <td>0.401200</td>
      <td>0.432345</td>
      <td>0.801000</td>
    </tr>
  </tbody>
</table><p>
"""

HF_TEXT = """[450/450 05:00, Epoch 3/3]
Epoch\tTraining Loss\tValidation Loss\tRmse
1\tNo log\t0.402345\t0.634307
2\t0.521200\t0.352345\t0.593587
3\t0.421200\t0.342345\t0.585103
"""

LIGHTNING = """Sanity Checking DataLoader 0: 100%|██████████| 2/2 [00:00<00:00,  5.51it/s]\r\
Epoch 0:  50%|█████     | 98/196 [00:15<00:15,  6.25it/s, v_num=0, train_loss=0.812]\r\
Epoch 0: 100%|██████████| 196/196 [00:31<00:00,  6.25it/s, v_num=0, train_loss=0.612]\r\
Validation DataLoader 0: 100%|██████████| 40/40 [00:04<00:00,  9.51it/s]\r\
Epoch 0: 100%|██████████| 196/196 [00:36<00:00,  5.44it/s, v_num=0, train_loss=0.612, val_loss=0.712, val_acc=0.734]
Epoch 1: 100%|██████████| 196/196 [00:36<00:00,  5.44it/s, v_num=0, train_loss=0.412, val_loss=0.512, val_acc=0.834]
`Trainer.fit` stopped: `max_epochs=2` reached.
"""

KERAS3 = """Epoch 1/3
\x1b[1m 1/94\x1b[0m \x1b[37m━━━━━━━━━━━━━━━━━━━━\x1b[0m \x1b[1m1:12\x1b[0m 776ms/step - accuracy: 0.1562 - loss: 2.4121\r\
\x1b[1m94/94\x1b[0m \x1b[32m━━━━━━━━━━━━━━━━━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m12s\x1b[0m 121ms/step - accuracy: 0.5121 - loss: 1.4121 - val_accuracy: 0.6121 - val_loss: 1.1012 - learning_rate: 0.0010
Epoch 2/3
\x1b[1m94/94\x1b[0m \x1b[32m━━━━━━━━━━━━━━━━━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m10s\x1b[0m 107ms/step - accuracy: 0.6121 - loss: 1.1121 - val_accuracy: 0.6921 - val_loss: 0.9012 - learning_rate: 0.0010
"""

FASTAI = """epoch     train_loss  valid_loss  dice_multi  time
0         0.512345    0.412345    0.601000    1:02:31
1         0.412345    0.352345    0.651000    1:02:11
Better model found at epoch 1 with dice_multi value: 0.651.
"""

ULTRALYTICS = """Starting training for 40 epochs...

      Epoch    GPU_mem   box_loss   seg_loss   cls_loss   dfl_loss  Instances       Size
       1/40      9.16G      1.734      3.345      2.456      1.2         45        640: 100%|██████████| 88/88 [00:44<00:00,  2.00it/s]
                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95)     Mask(P          R      mAP50  mAP50-95): 100%|██████████| 6/6 [00:03<00:00,  1.90it/s]
                   all        128        929      0.669       0.54       0.62       0.45      0.6       0.5       0.58       0.41
       2/40      9.23G      1.534      3.045      2.156      1.1         41        640: 100%|██████████| 88/88 [00:40<00:00,  2.20it/s]
                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95)     Mask(P          R      mAP50  mAP50-95): 100%|██████████| 6/6 [00:03<00:00,  1.90it/s]
                   all        128        929      0.7       0.59       0.66       0.49      0.6       0.5       0.6       0.43
"""


def _paddledet() -> str:
    return (
        "".join(
            f"[01/07 14:{40 + k:02d}:44] ppdet.engine INFO: Epoch: [0] [{20 * k:3d}/200] learning_rate: 0.000025 loss_xy: 7.02 loss_cls: 35.9 loss: {37.6 - k:.6f} eta: 2 days, 9:39:33 batch_cost: 0.6231 data_cost: 0.0753 ips: 12.8400 images/s, max_mem_reserved: 12653 MB, max_mem_allocated: 11490 MB\n"
            for k in range(6)
        )
        + "[01/07 14:47:12] ppdet.engine INFO: Eval iter: 0\n"
    )


PADDLESEG = """2026-01-07 06:55:57 [INFO]\t[TRAIN] epoch: 1, iter: 480/1000, loss: 0.7859, lr: 0.009657, batch_cost: 0.3544, reader_cost: 0.00273, ips: 11.2866 samples/sec | ETA 00:03:04
2026-01-07 06:56:04 [INFO]\t[TRAIN] epoch: 1, iter: 500/1000, loss: 0.6769, lr: 0.009295, batch_cost: 0.3483, reader_cost: 0.00205, ips: 11.4843 samples/sec | ETA 00:02:54
2026-01-07 06:56:05 [INFO]\tStart evaluating (total_samples: 500, total_iters: 500)...
500/500 [==============================] - 21s 42ms/step - batch_cost: 0.0418 - reader cost: 0.0031
2026-01-07 06:56:26 [INFO]\t[EVAL] #Images: 500 mIoU: 0.7212 Acc: 0.9512 Kappa: 0.9 Dice: 0.8231
2026-01-07 06:56:26 [INFO]\t[EVAL] Class IoU: \n[0.95 0.71]
2026-01-07 06:56:26 [INFO]\t[EVAL] The model with the best validation mIoU (0.7212) was saved at iter 500.
"""

YOLOX = """2026-01-07 14:38:09 | INFO     | yolox.core.trainer:188 - ---> start train epoch1
2026-01-07 14:38:12 | INFO     | yolox.core.trainer:after_iter:282 - epoch: 1/80, iter: 100/570, gpu mem: 6736Mb, mem: 46.8Gb, iter_time: 0.306s, data_time: 0.001s, total_loss: 14.5, iou_loss: 3.9, l1_loss: 0.0, conf_loss: 8.9, cls_loss: 1.7, lr: 6.156e-08, size: 640, ETA: 3:52:03
2026-01-07 14:38:42 | INFO     | yolox.core.trainer:after_iter:282 - epoch: 1/80, iter: 200/570, gpu mem: 6736Mb, mem: 46.9Gb, iter_time: 0.302s, data_time: 0.001s, total_loss: 12.5, iou_loss: 3.7, l1_loss: 0.0, conf_loss: 7.0, cls_loss: 1.8, lr: 6.156e-07, size: 640, ETA: 3:50:03
"""

KAGGLE_FOLDS = """========== fold: 0 training ==========
Epoch: [1][0/480] Elapsed 0m 1s (remain 9m 4s) Loss: 0.6913(0.6913) Grad: 12.3  LR: 0.00002000
Epoch: [1][479/480] Elapsed 4m 1s (remain 0m 0s) Loss: 0.3913(0.4913) Grad: 2.3  LR: 0.00002000
EVAL: [29/30] Elapsed 0m 9s (remain 0m 0s) Loss: 0.4(0.3)
Epoch 1 - avg_train_loss: 0.4913  avg_val_loss: 0.4021  time: 250s
Epoch 1 - Score: 0.8123
Epoch 1 - Save Best Score: 0.8123 Model
========== fold: 0 result ==========
Score: 0.8123
========== fold: 1 training ==========
Epoch: [1][479/480] Elapsed 4m 2s (remain 0m 0s) Loss: 0.3813(0.4813) Grad: 2.3  LR: 0.00002000
Epoch 1 - avg_train_loss: 0.4813  avg_val_loss: 0.3921  time: 252s
Epoch 1 - Score: 0.8201
========== fold: 1 result ==========
Score: 0.8201
========== CV ==========
Score: 0.8162
"""

LIGHTGBM = """Fold 1 started at Wed Jan  7 10:00:00 2026
Training until validation scores don't improve for 200 rounds
[500]\ttraining's auc: 0.912\tvalid_1's auc: 0.784
[1000]\ttraining's auc: 0.931\tvalid_1's auc: 0.791
Early stopping, best iteration is:
[873]\ttraining's auc: 0.926\tvalid_1's auc: 0.792
Fold 1 AUC : 0.792000
Fold 2 started at Wed Jan  7 10:02:00 2026
Training until validation scores don't improve for 200 rounds
[500]\ttraining's auc: 0.911\tvalid_1's auc: 0.779
Early stopping, best iteration is:
[612]\ttraining's auc: 0.917\tvalid_1's auc: 0.781
Fold 2 AUC : 0.781000
CV score: 0.7863
submission.csv written
"""

XGBOOST = """[10:01:22] INFO: /workspace/src/gbm/gbtree.cc:138: Tree method is selected to be 'hist'
[0]\tvalidation_0-rmse:12.61231\tvalidation_1-rmse:12.83121
[100]\tvalidation_0-rmse:3.31231\tvalidation_1-rmse:3.93121
[200]\tvalidation_0-rmse:2.91231\tvalidation_1-rmse:3.83121
"""

CATBOOST = """0:\tlearn: 0.6831\ttest: 0.6840\tbest: 0.6840 (0)\ttotal: 62.1ms\tremaining: 1m 2s
500:\tlearn: 0.4121\ttest: 0.4321\tbest: 0.4321 (500)\ttotal: 28.1s\tremaining: 28s
999:\tlearn: 0.3821\ttest: 0.4221\tbest: 0.4219 (981)\ttotal: 56.2s\tremaining: 0us

bestTest = 0.4219
bestIteration = 981
"""

ACCELERATE = """01/07/2026 10:00:00 - INFO - __main__ - ***** Running training *****
01/07/2026 10:00:00 - INFO - __main__ -   Num examples = 3668
01/07/2026 10:00:00 - INFO - __main__ -   Num Epochs = 3
01/07/2026 10:00:00 - INFO - __main__ -   Instantaneous batch size per device = 8
01/07/2026 10:00:00 - INFO - __main__ -   Total optimization steps = 1377
 33%|███▎      | 459/1377 [01:40<03:20,  4.59it/s]
01/07/2026 10:01:44 - INFO - __main__ - epoch 0: {'accuracy': 0.8455, 'f1': 0.8912}
 67%|██████▋   | 918/1377 [03:24<01:40,  4.59it/s]
01/07/2026 10:03:28 - INFO - __main__ - epoch 1: {'accuracy': 0.8655, 'f1': 0.9012}
"""

AXOLOTL = """{'loss': 1.4102, 'grad_norm': 0.41, 'learning_rate': 4.9e-06, 'memory/max_mem_active(gib)': 34.89, 'memory/max_mem_allocated(gib)': 34.89, 'memory/device_mem_reserved(gib)': 41.26, 'epoch': 0.5}
 50%|█████     | 100/200 [07:00<07:00,  4.20s/it]
{'eval_loss': 1.3642, 'eval_runtime': 16.2872, 'eval_samples_per_second': 6.14, 'eval_steps_per_second': 3.07, 'memory/max_active (GiB)': 34.89, 'epoch': 0.5}
{'loss': 1.3102, 'grad_norm': 0.38, 'learning_rate': 4.5e-06, 'memory/max_mem_active(gib)': 34.91, 'memory/max_mem_allocated(gib)': 34.91, 'memory/device_mem_reserved(gib)': 41.26, 'epoch': 1.0}
100%|██████████| 200/200 [14:00<00:00,  4.20s/it]
{'eval_loss': 1.2942, 'eval_runtime': 16.2872, 'eval_samples_per_second': 6.14, 'eval_steps_per_second': 3.07, 'memory/max_active (GiB)': 34.89, 'epoch': 1.0}
{'train_runtime': 873.1, 'train_samples_per_second': 3.665, 'train_steps_per_second': 0.229, 'train_loss': 1.3602, 'epoch': 1.0}
"""

DPO = """{'loss': 0.6273, 'grad_norm': 9.1, 'learning_rate': 4.2e-05, 'rewards/chosen': -0.17, 'rewards/rejected': -0.47, 'rewards/accuracies': 0.9925, 'rewards/margins': 0.29, 'logps/rejected': -148.0, 'logps/chosen': -138.3, 'epoch': 0.5}
{'loss': 0.5273, 'grad_norm': 9.1, 'learning_rate': 2.1e-05, 'rewards/chosen': -0.17, 'rewards/rejected': -0.67, 'rewards/accuracies': 0.9950, 'rewards/margins': 0.49, 'logps/rejected': -149.0, 'logps/chosen': -138.3, 'epoch': 1.0}
{'eval_loss': 0.5806, 'eval_runtime': 9.5, 'eval_samples_per_second': 10.4, 'eval_steps_per_second': 1.3, 'eval_rewards/chosen': -0.26, 'eval_rewards/rejected': -0.59, 'eval_rewards/accuracies': 0.7519, 'eval_rewards/margins': 0.33, 'epoch': 1.0}
"""

UNSLOTH = """==((====))==  Unsloth - 2x faster free finetuning | Num GPUs = 1
   \\\\   /|    Num examples = 1,760 | Num Epochs = 1
O^O/ \\_/ \\    Batch size per device = 2 | Gradient Accumulation steps = 4
\\        /    Total batch size = 8 | Total steps = 220
 "-____-"     Number of trainable parameters = 41,943,040
 [ 22/220 02:50 < 25:30, 0.13 it/s, Epoch 0.10/1]
Step\tTraining Loss
10\t1.824300
20\t1.512100
"""

TUTORIAL_TEXT = """Epoch: 01 | Epoch Time: 1m 23s
\tTrain Loss: 0.693 | Train Acc: 50.31%
\t Val. Loss: 0.671 |  Val. Acc: 61.20%
Epoch: 02 | Epoch Time: 1m 21s
\tTrain Loss: 0.593 | Train Acc: 70.31%
\t Val. Loss: 0.571 |  Val. Acc: 72.40%
"""

MONAI = """----------
epoch 1/300
1/16, train_loss: 0.6162 step time: 0.9368
16/16, train_loss: 0.5303 step time: 0.9379
epoch 1 average loss: 0.5648
----------
epoch 2/300
8/16, train_loss: 0.4162 step time: 0.9368
16/16, train_loss: 0.4303 step time: 0.9379
epoch 2 average loss: 0.4348
saved new best metric model
current epoch: 2 current mean dice: 0.6157 best mean dice: 0.6157 at epoch: 2
time consuming of epoch 2 is: 30.7164
----------
"""

TF_DETECTION = """INFO:tensorflow:Step 3800 per-step time 0.766s loss=1.343
I0107 12:30:41.062087 139735407601536 model_lib_v2.py:652] Step 3800 per-step time 0.766s loss=1.343
INFO:tensorflow:Step 3900 per-step time 0.764s loss=1.310
I0107 12:32:04.439736 139735407601536 model_lib_v2.py:652] Step 3900 per-step time 0.764s loss=1.310
"""

FAIRSEQ = """| epoch 001:    450 / 1891 loss=11.521, nll_loss=10.881, ppl=1886.05, wps=52922, ups=0.5, wpb=104928, bsz=5325, num_updates=445, lr=8.90889e-05, gnorm=1.543, clip=0%, oom=0, loss_scale=2.000, wall=882, train_wall=756
| epoch 001 | loss 10.326 | nll_loss 9.193 | ppl 636.58 | wps 52876 | ups 0.5 | wpb 104578 | bsz 5308 | num_updates 1891 | lr 0.0002137 | gnorm 1.201 | clip 0% | oom 0 | wall 3634 | train_wall 3309
| epoch 001 | valid on 'valid' subset | valid_loss 8.43844 | valid_nll_loss 7.23288 | valid_ppl 137.61 | num_updates 1891 | best 8.43844
| epoch 002 | loss 8.326 | nll_loss 7.193 | ppl 136.58 | wps 52876 | ups 0.5 | wpb 104578 | bsz 5308 | num_updates 3782 | lr 0.0002137 | gnorm 1.201 | clip 0% | oom 0 | wall 7234 | train_wall 6609
| epoch 002 | valid on 'valid' subset | valid_loss 6.43844 | valid_nll_loss 5.23288 | valid_ppl 37.61 | num_updates 3782 | best 6.43844
"""

TRANSFER_TUTORIAL = """Epoch 0/24
----------
train Loss: 0.5921 Acc: 0.6926
val Loss: 0.2348 Acc: 0.9085

Epoch 1/24
----------
train Loss: 0.4321 Acc: 0.8126
val Loss: 0.2148 Acc: 0.9216

Training complete in 1m 23s
Best val Acc: 0.921569
"""

QUICKSTART = """Epoch 1
-------------------------------
loss: 2.303494  [   64/60000]
loss: 2.194636  [51264/60000]
Test Error:
 Accuracy: 49.2%, Avg loss: 2.158123

Epoch 2
-------------------------------
loss: 2.166204  [   64/60000]
loss: 1.994636  [51264/60000]
Test Error:
 Accuracy: 57.4%, Avg loss: 1.898123

Done!
"""

MNIST = """Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.300039
Train Epoch: 1 [59520/60000 (99%)]\tLoss: 0.213470

Test set: Average loss: 0.0512, Accuracy: 9827/10000 (98%)

Train Epoch: 2 [59520/60000 (99%)]\tLoss: 0.113470

Test set: Average loss: 0.0412, Accuracy: 9857/10000 (99%)
"""

AUTOGLUON = """Fitting 3 L1 models, fit_strategy="sequential" ...
Fitting model: LightGBM_BAG_L1 ... Training model for up to 239.91s of the 359.93s of remaining time.
\t0.8123\t = Validation score   (roc_auc)
\t12.31s\t = Training   runtime
\t0.21s\t = Validation runtime
Fitting model: CatBoost_BAG_L1 ... Training model for up to 227.1s of the 347.2s of remaining time.
\t0.8201\t = Validation score   (roc_auc)
\t41.02s\t = Training   runtime
\t0.11s\t = Validation runtime
AutoGluon training complete, total runtime = 62.15s ... Best model: WeightedEnsemble_L2
"""

OWN_PRINT = """[1/30] train_loss=0.6123 train_acc=0.7012 val_loss=0.5512 val_acc=0.7312 lr=1.0e-03 (45.2s)
[2/30] train_loss=0.5123 train_acc=0.7812 val_loss=0.5012 val_acc=0.7612 lr=9.9e-04 (44.8s)
"""

ESPNET = """[host] 2026-01-07 10:00:00,123 (trainer:338) INFO: 1epoch results: [train] iter_time=1.2e-04, forward_time=0.2, loss_ctc=91.1, loss_att=71.2, acc=0.412, loss=77.2, backward_time=0.3, train_time=1.234, time=41 minutes and 3.45 seconds, total_count=2000, gpu_max_cached_mem_GB=14.21, [valid] loss_ctc=61.2, cer_ctc=0.31, acc=0.512, loss=52.1, time=1 minute and 2.31 seconds, total_count=50
[host] 2026-01-07 10:43:00,123 (trainer:338) INFO: 2epoch results: [train] iter_time=1.2e-04, forward_time=0.2, loss_ctc=61.1, loss_att=51.2, acc=0.612, loss=57.2, backward_time=0.3, train_time=1.234, time=41 minutes and 1.45 seconds, total_count=4000, gpu_max_cached_mem_GB=14.21, [valid] loss_ctc=41.2, cer_ctc=0.21, acc=0.712, loss=32.1, time=1 minute and 1.31 seconds, total_count=100
"""

JSON_LINES = """{"mode": "train", "epoch": 5, "iter": 11950, "lr": 0.00446, "memory": 6912, "data_time": 0.00874, "decode.loss_seg": 0.71687, "decode.acc_seg": 70.43675, "loss": 1.10256, "time": 0.43798}
{"mode": "train", "epoch": 5, "iter": 12000, "lr": 0.00445, "memory": 6912, "data_time": 0.00874, "decode.loss_seg": 0.70687, "decode.acc_seg": 70.53675, "loss": 1.09256, "time": 0.43798}
{"mode": "val", "epoch": 5, "iter": 12000, "lr": 0.00444, "mIoU": 0.18724, "mAcc": 0.26615, "aAcc": 0.81247}
"""

DEIT_JSON = """{"train_lr": 0.00052, "train_loss": 3.5884, "epoch": 147, "n_parameters": 11590840}
{"train_lr": 0.00051, "train_loss": 3.5421, "test_loss": 1.1100, "test_acc1": 74.1500, "test_acc5": 92.4580, "epoch": 148, "n_parameters": 11590840}
"""

CSV_LOGGER = """epoch,train_loss,eval_loss,eval_top1,eval_top5
0,4.63,4.6296,1.0800,4.8000
1,4.59,4.3800,4.5500,18.0300
2,4.52,4.2895,5.6800,20.5400
"""

SUMMARY_FILE = """Validation loss decreased (inf --> 0.512000).  Saving model ...
Epoch: 1 | Train Loss: 0.61 | Train RMSE: 0.72 | Valid Loss: 0.512 | Valid RMSE: 0.702 | elapsed: 1h 2m 3s
Validation loss decreased (0.512000 --> 0.482000).  Saving model ...
Epoch: 2 | Train Loss: 0.51 | Train RMSE: 0.62 | Valid Loss: 0.482 | Valid RMSE: 0.682 | elapsed: 1h 2m 5s
OOF RMSE: 0.682
"""

ANSWERS: dict[str, tuple[str, dict[str, Any]]] = {
    "mmdetection 2": (
        _mmdet2(),
        {
            "epochs": 2,
            "last": {"metric": 0.224, "train_loss": 0.5},
            "step": (100, 120),
            "step_seconds": 0.455,
            "eta_seconds": 3 * HOUR + 12 * MINUTE + 5,
            "memory_gib": 5213 / 1024,
            "metric_name": "bbox_mAP",
        },
    ),
    "mmsegmentation": (
        _mmseg(),
        {
            "step": (150, 40000),
            "step_seconds": 0.402,
            "eta_seconds": 4 * HOUR + 26 * MINUTE + 40,
            "memory_gib": 9901 / 1024,
            "last": {"metric": 0.3712},
            "metric_name": "mIoU",
        },
    ),
    "mmengine": (
        _mmengine(),
        {
            "epochs": 2,
            "last": {"metric": 0.321, "train_loss": 1.3},
            "step": (200, 210),
            "step_seconds": 0.3012,
            "eta_seconds": DAY + 2 * HOUR + 12 * MINUTE + 1,
            "memory_gib": 7120 / 1024,
            "metric_name": "coco/bbox_mAP",
        },
    ),
    "detectron2": (
        _detectron2(),
        {
            "step": (119, None),
            "step_seconds": 0.3512,
            "eta_seconds": 5 * HOUR + 5 * MINUTE + 12,
            "memory_gib": 4231 / 1024,
            "last": {"metric": 31.4512},
        },
    ),
    "nnU-Net 2": (
        _nnunet2(),
        {
            "epochs": 5,
            "last": {"train_loss": -0.5, "valid_loss": -0.6, "metric": 0.8, "seconds": 111.78},
            "metric_name": "Pseudo dice",
        },
    ),
    "nnU-Net 1": (
        _nnunet1(),
        {"epochs": 4, "last": {"train_loss": -0.7, "valid_loss": -0.75, "metric": 0.6, "seconds": 137.136}},
    ),
    "Swin": (
        _swin(),
        {
            "epochs": 2,
            "last": {"metric": 74.125, "train_loss": 5.6, "seconds": 231.0},
            "step": (630, 640),
            "step_seconds": 0.3612,
            "memory_gib": 14764 / 1024,
        },
    ),
    "MetricLogger": (
        _metric_logger(),
        {
            "epochs": 2,
            "last": {"metric": 61.21, "valid_loss": 1.612, "seconds": 138.0},
            "step": (311, 312),
            "step_seconds": 0.442,
            "memory_gib": 8213 / 1024,
        },
    ),
    "timm": (
        _timm(),
        {
            "epochs": 2,
            "last": {"metric": 11.512, "valid_loss": 6.61},
            "step": (399, 400),
            "step_seconds": 0.32,
            "samples_per_second": 800.0,
        },
    ),
    "maskrcnn-benchmark": (
        _maskrcnn(),
        {
            "epochs": 0,
            "step": (100, None),
            "step_seconds": 0.7111,
            "eta_seconds": DAY + 2 * HOUR + 14 * MINUTE + 5,
            "memory_gib": 5004 / 1024,
        },
    ),
    "transformers": (
        _hf_dicts(),
        {
            "epochs": 3,
            "last": {"valid_loss": 0.8, "metric": 0.731},
            "samples_per_second": 26.49,
            "metric_name": "f1",
        },
    ),
    "transformers, table of a notebook": (
        HF_HTML,
        {
            "epochs": 3,
            "last": {"train_loss": 0.4012, "valid_loss": 0.432345, "metric": 0.801},
            "metric_name": "accuracy",
        },
    ),
    "transformers, table as text": (
        HF_TEXT,
        {
            "epochs": 3,
            "last": {"train_loss": 0.4212, "valid_loss": 0.342345, "metric": 0.585103},
            "metric_name": "rmse",
        },
    ),
    "Lightning": (
        LIGHTNING,
        {
            "epochs": 2,
            "last": {"train_loss": 0.412, "valid_loss": 0.512, "metric": 0.834, "seconds": 36.0},
            "metric_name": "val_acc",
        },
    ),
    "Keras 3": (
        KERAS3,
        {
            "epochs": 2,
            "last": {"train_loss": 1.1121, "valid_loss": 0.9012, "metric": 0.6921, "seconds": 10.0},
        },
    ),
    "fastai": (
        FASTAI,
        {
            "epochs": 2,
            "last": {"train_loss": 0.412345, "valid_loss": 0.352345, "metric": 0.651, "seconds": 3731.0},
            "metric_name": "dice_multi",
        },
    ),
    "ultralytics": (ULTRALYTICS, {"epochs": 2, "last": {"metric": 0.49}, "memory_gib": 9.23}),
    "PaddleDetection": (
        _paddledet(),
        {
            "epochs": 0,
            "step": (100, 200),
            "step_seconds": 0.6231,
            "eta_seconds": 2 * DAY + 9 * HOUR + 39 * MINUTE + 33,
            "memory_gib": 11490 / 1024,
            "samples_per_second": 12.84,
        },
    ),
    "PaddleSeg": (
        PADDLESEG,
        {
            "step": (500, 1000),
            "step_seconds": 0.3483,
            "eta_seconds": 174.0,
            "samples_per_second": 11.4843,
            "last": {"metric": 0.7212},
            "metric_name": "mIoU",
        },
    ),
    "YOLOX": (
        YOLOX,
        {
            "epochs": 0,
            "step": (200, 570),
            "step_seconds": 0.302,
            "eta_seconds": 3 * HOUR + 50 * MINUTE + 3,
            "memory_gib": 6736 / 1024,
        },
    ),
    "Kaggle folds": (
        KAGGLE_FOLDS,
        {
            "epochs": 2,
            "folds": 2,
            "last": {"train_loss": 0.4813, "valid_loss": 0.3921, "metric": 0.8201, "seconds": 252.0},
        },
    ),
    "LightGBM": (LIGHTGBM, {"folds": 2, "submission": True, "metric_name": "auc"}),
    "XGBoost": (XGBOOST, {"folds": 1, "last": {"epoch": 200, "valid_loss": 3.83121}}),
    "CatBoost": (CATBOOST, {"folds": 1, "last": {"epoch": 999, "valid_loss": 0.4221}}),
    "accelerate": (
        ACCELERATE,
        {"epochs": 2, "last": {"metric": 0.8655}, "step": (918, 1377), "metric_name": "accuracy"},
    ),
    "axolotl": (
        AXOLOTL,
        {
            "epochs": 1,
            "last": {"valid_loss": 1.2942},
            "step": (200, 200),
            "memory_gib": 34.91,
            "samples_per_second": 3.665,
        },
    ),
    "TRL": (DPO, {"epochs": 1, "last": {"train_loss": 0.5273, "valid_loss": 0.5806, "metric": 0.7519}}),
    "unsloth": (UNSLOTH, {"epochs": 0, "step": (22, 220)}),
    "text tutorial": (
        TUTORIAL_TEXT,
        {"epochs": 2, "last": {"train_loss": 0.593, "valid_loss": 0.571, "metric": 72.4, "seconds": 81.0}},
    ),
    "MONAI": (
        MONAI,
        {
            "epochs": 2,
            "last": {"train_loss": 0.4348, "metric": 0.6157, "seconds": 30.7164},
            "step": (16, 16),
            "step_seconds": 0.9379,
        },
    ),
    "TF detection": (TF_DETECTION, {"epochs": 0, "step": (3900, None), "step_seconds": 0.764}),
    "fairseq": (
        FAIRSEQ,
        {"epochs": 2, "last": {"train_loss": 8.326, "valid_loss": 6.43844}, "step": (450, 1891)},
    ),
    "transfer tutorial": (
        TRANSFER_TUTORIAL,
        {"epochs": 2, "last": {"train_loss": 0.4321, "valid_loss": 0.2148, "metric": 0.9216}},
    ),
    "quickstart": (QUICKSTART, {"epochs": 2, "last": {"valid_loss": 1.898123, "metric": 57.4}}),
    "MNIST example": (MNIST, {"epochs": 2, "last": {"valid_loss": 0.0412, "metric": 99.0}}),
    "AutoGluon": (AUTOGLUON, {"epochs": 0, "metric_name": "roc_auc"}),
    "own print": (
        OWN_PRINT,
        {
            "epochs": 2,
            "last": {"train_loss": 0.5123, "valid_loss": 0.5012, "metric": 0.7612, "seconds": 44.8},
            "metric_name": "val_acc",
        },
    ),
    "ESPnet": (
        ESPNET,
        {"epochs": 2, "last": {"train_loss": 57.2, "valid_loss": 32.1, "metric": 0.712, "seconds": 2461.45}},
    ),
    "mmcv JSON": (
        JSON_LINES,
        {"step": (12000, None), "step_seconds": 0.43798, "memory_gib": 6.75, "last": {"metric": 0.18724}},
    ),
    "DeiT JSON": (
        DEIT_JSON,
        {"epochs": 2, "last": {"train_loss": 3.5421, "valid_loss": 1.11, "metric": 74.15}},
    ),
    "CSV": (CSV_LOGGER, {"epochs": 3, "last": {"train_loss": 4.52, "valid_loss": 4.2895, "metric": 5.68}}),
    "own print with times": (
        SUMMARY_FILE,
        {"epochs": 2, "last": {"train_loss": 0.51, "valid_loss": 0.482, "metric": 0.682, "seconds": 3725.0}},
    ),
}

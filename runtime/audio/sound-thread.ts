// A thread that mixes, resamples and measures sound: seconds of work for a long recording, during which the server must go on
// answering. Recordings take turns, so that a short one is not behind a long one.
import { setImmediate as turn } from "node:timers/promises";
import { parentPort } from "node:worker_threads";
import { pcmOfWav } from "./pcm-of-wav.ts";
import { medianPitchHz } from "./pitch.ts";
import { AudioRefusal } from "./sound.ts";
import type { SoundAnswer, SoundQuestion } from "./sound-messages.ts";
import { openWav } from "./wav.ts";

const port = parentPort;
if (!port) throw new Error("sound-thread.ts runs as a worker thread");

/** Questions that are being answered. */
const open = new Set<number>();

port.on("message", (question: SoundQuestion) => {
  const { id } = question;
  if (question.kind === "leave") return void open.delete(id);
  open.add(id);
  void answer(question)
    .catch((error: unknown) => {
      const code = error instanceof AudioRefusal ? error.code : undefined;
      send({ id, kind: "failed", code, message: error instanceof Error ? error.message : String(error) });
    })
    .finally(() => open.delete(id));
});

async function answer(question: Exclude<SoundQuestion, { kind: "leave" }>): Promise<void> {
  const { id } = question;
  if (question.kind === "pitch") return send({ id, kind: "pitched", hz: medianPitchHz(question.sound) });
  const { buffer, byteOffset, byteLength } = question.bytes;
  const wav = openWav(Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength));
  if (!wav) throw new Error("this WAV file is of another coding");
  for (const bytes of pcmOfWav(wav, question.rate)) {
    send({ id, kind: "pcm", bytes }, [bytes.buffer as ArrayBuffer]);
    await turn();
    if (!open.has(id)) return;
  }
  send({ id, kind: "end" });
}

function send(message: SoundAnswer, transfer: ArrayBuffer[] = []): void {
  port?.postMessage(message, transfer);
}

// Thread that mixes, resamples and measures sound: seconds of work for a long recording, which would block the server. Files are
// read piece by piece on request, so that a short one does not wait for a long one.
import { parentPort } from "node:worker_threads";
import { medianPitchHz } from "./pitch.ts";
import { Resampler } from "./resample.ts";
import { AudioRefusal } from "./sound.ts";
import type { SoundAnswer, SoundQuestion } from "./sound-messages.ts";
import { openWav, toPcm16, type WavSound } from "./wav.ts";

const port = parentPort;
if (!port) throw new Error("sound-thread.ts runs as a worker thread");

/** Files that are being read. */
const open = new Map<number, Generator<Buffer>>();

port.on("message", (question: SoundQuestion) => {
  const { id } = question;
  try {
    answer(question);
  } catch (error) {
    open.delete(id);
    const code = error instanceof AudioRefusal ? error.code : undefined;
    send({ id, kind: "failed", code, message: error instanceof Error ? error.message : String(error) });
  }
});

function answer(question: SoundQuestion): void {
  const { id } = question;
  switch (question.kind) {
    case "leave":
      open.delete(id);
      return;
    case "pitch":
      send({ id, kind: "pitched", hz: medianPitchHz(question.sound) });
      return;
    case "wav": {
      const { buffer, byteOffset, byteLength } = question.bytes;
      const wav = openWav(Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength));
      if (!wav) throw new Error("this WAV file is of another coding");
      open.set(id, pcmOfWav(wav, question.rate));
      sendNext(id);
      return;
    }
    case "more":
      sendNext(id);
  }
}

function sendNext(id: number): void {
  const piece = open.get(id)?.next();
  if (piece && !piece.done) {
    send({ id, kind: "pcm", bytes: piece.value }, [piece.value.buffer as ArrayBuffer]);
    return;
  }
  open.delete(id);
  send({ id, kind: "end" });
}

function send(message: SoundAnswer, transfer: ArrayBuffer[] = []): void {
  port?.postMessage(message, transfer);
}

/** Resamples a WAV file to 16-bit samples, a few seconds at a time to limit memory. */
const secondsAtOnce = 5;

function* pcmOfWav(wav: WavSound, rate: number): Generator<Buffer> {
  const resampler = wav.rate === rate ? undefined : new Resampler(wav.rate, rate);
  const step = wav.rate * secondsAtOnce;
  for (let at = 0; at < wav.length; at += step) {
    const mixed = wav.mixed(at, Math.min(at + step, wav.length));
    yield toPcm16(resampler ? resampler.push(mixed) : mixed);
  }
  if (resampler) yield toPcm16(resampler.end());
}

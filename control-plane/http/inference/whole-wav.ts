// A streamed WAV file has unknown lengths: both are 0xFFFFFFFF, which players and libraries read as two days of sound. When the
// whole file is buffered, this writes the real lengths.
import type { WholeAnswer } from "./buffered-sink.ts";

const unknownLength = 0xffff_ffff;

/** Changes the body in place; returns anything but such a WAV file unchanged. */
export function wholeWav(answer: WholeAnswer): WholeAnswer {
  const { body } = answer;
  if (body.length < 12 || body.toString("latin1", 0, 4) !== "RIFF" || body.readUInt32LE(4) !== unknownLength)
    return answer;
  body.writeUInt32LE(body.length - 8, 4);
  for (let at = 12; at + 8 <= body.length; ) {
    const bytes = body.readUInt32LE(at + 4);
    if (bytes === unknownLength) {
      body.writeUInt32LE(body.length - at - 8, at + 4);
      break;
    }
    at += 8 + bytes + (bytes % 2);
  }
  return answer;
}

// A wav that is sent while it is made cannot say how long it gets: both its lengths are 0xFFFFFFFF, which players and libraries
// take for two days of sound. Where the whole of it lies here before it is sent, it says its lengths.
import type { WholeAnswer } from "./buffered-sink.ts";

const unknownLength = 0xffff_ffff;

/** Anything else comes back as it is. The answer's own bytes are written to. */
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

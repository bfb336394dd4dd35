import { expect, it } from "vitest";
import { wholeWav } from "../../../../../control-plane/http/inference/whole-wav.ts";
import { wavHeader } from "../../../../../proto/wav.ts";

const whole = (body: Buffer) => wholeWav({ contentType: "audio/wav", body }).body;
const lengths = (wav: Buffer, data = 40) => [wav.readUInt32LE(4), wav.readUInt32LE(data)];

it("a streamed wav that is whole says how long it is, and keeps its sound", () => {
  const sound = Buffer.from([1, 2, 3, 4, 5, 6]);
  const wav = whole(Buffer.concat([wavHeader(24_000), sound]));
  expect(lengths(wav)).toEqual([36 + 6, 6]);
  expect(wav.subarray(44)).toEqual(sound);
  expect(lengths(whole(wavHeader(24_000)))).toEqual([36, 0]);
});

it("chunks before the sound are passed over", () => {
  const header = wavHeader(24_000);
  const list = Buffer.from("LIST\u0003\0\0\0abc\0", "latin1");
  const wav = whole(Buffer.concat([header.subarray(0, 36), list, header.subarray(36), Buffer.alloc(10)]));
  expect(lengths(wav, 40 + list.length)).toEqual([wav.length - 8, 10]);
});

it.each([
  ["a wav that says its length", Buffer.concat([Buffer.from("RIFF\u0024\0\0\0WAVE", "latin1"), Buffer.alloc(32)])],
  ["an mp3", Buffer.from("ID3\u0004and more than twelve bytes")],
  ["nothing", Buffer.alloc(0)],
  ["a header that breaks off", wavHeader(24_000).subarray(0, 11)],
])("%s stays as it is", (_, body) => {
  const before = Buffer.from(body);
  expect(whole(body)).toEqual(before);
});

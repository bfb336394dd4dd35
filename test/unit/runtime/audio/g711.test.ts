import { expect, it } from "vitest";
import { samplesOf } from "../../../../control-plane/http/inference/realtime/sound.ts";
import { toG711 } from "../../../../runtime/audio/g711.ts";

it.each([
  ["ulaw", "audio/pcmu", 32],
  ["alaw", "audio/pcma", 32],
] as const)("writes %s that a decoder reads back, code by code and within its step", (law, format, share) => {
  const codes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  const again = toG711(law, samplesOf(format, codes) as Buffer);
  // Mu-law has two zeros.
  expect([...again]).toEqual([...codes].map((code) => (law === "ulaw" && code === 0x7f ? 0xff : code)));
  const samples = Buffer.alloc(65_536 * 2);
  for (let i = 0; i < 65_536; i += 1) samples.writeInt16LE(i - 32_768, i * 2);
  const decoded = samplesOf(format, toG711(law, samples)) as Buffer;
  let worst = 0;
  for (let i = 0; i < 65_536; i += 1) {
    const sample = i - 32_768;
    const step = Math.max(16, (Math.abs(sample) + 132) / share);
    worst = Math.max(worst, Math.abs(decoded.readInt16LE(i * 2) - sample) / step);
  }
  expect(worst).toBeLessThanOrEqual(1);
});

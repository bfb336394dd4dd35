// ITU-T G.711: 16-bit samples as bytes of a sign, three bits of exponent and four of mantissa. Pure.

export type G711Law = "ulaw" | "alaw";

/** `pcm`: little-endian 16-bit samples. */
export function toG711(law: G711Law, pcm: Buffer): Buffer {
  const encode = law === "ulaw" ? muLaw : aLaw;
  const coded = Buffer.alloc(pcm.length / 2);
  for (let i = 0; i < coded.length; i += 1) coded[i] = encode(pcm.readInt16LE(i * 2));
  return coded;
}

const bias = 0x84;
const maxMuLaw = 0x7fff - bias;

function muLaw(sample: number): number {
  const magnitude = Math.min(Math.abs(sample), maxMuLaw) + bias;
  return ~((sample < 0 ? 0x80 : 0) | exponentAndMantissa(magnitude)) & 0xff;
}

function aLaw(sample: number): number {
  const magnitude = sample < 0 ? -sample - 1 : sample;
  const code = magnitude < 0x100 ? magnitude >> 4 : exponentAndMantissa(magnitude);
  return ((sample < 0 ? 0 : 0x80) | code) ^ 0x55;
}

/** `magnitude`: 0x80 to 0x7fff. */
function exponentAndMantissa(magnitude: number): number {
  const exponent = 24 - Math.clz32(magnitude);
  return (exponent << 4) | ((magnitude >> (exponent + 3)) & 0x0f);
}

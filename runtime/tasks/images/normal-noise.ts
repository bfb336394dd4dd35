// Noise by a seed: the values that PyTorch draws on a CPU, so that a seed makes the same picture here as there. Pure.
// Sources: the Mersenne Twister of Matsumoto and Nishimura (1998); at::native::normal_fill for the order of its pairs.
const size = 624;
const shift = 397;
/** PyTorch draws values in groups of sixteen: eight lengths, eight angles. */
const group = 16;

/** Standard normal values. `seed`: its low 32 bits count. `count` is at least sixteen. */
export function normalNoise(seed: number, count: number): Float32Array {
  const next = uniforms(seed);
  const values = Float32Array.from({ length: count }, next);
  for (let at = 0; at + group <= count; at += group) fillGroup(values, at);
  if (count % group !== 0) {
    const at = count - group;
    for (let i = at; i < count; i++) values[i] = next();
    fillGroup(values, at);
  }
  return values;
}

/** Box and Muller's transform of sixteen uniform values in their place. */
function fillGroup(values: Float32Array, from: number): void {
  for (let i = from; i < from + group / 2; i++) {
    const length = Math.sqrt(-2 * Math.log(1 - (values[i] as number)));
    const angle = 2 * Math.PI * (values[i + group / 2] as number);
    values[i] = length * Math.cos(angle);
    values[i + group / 2] = length * Math.sin(angle);
  }
}

/** From 0 to below 1, of 24 bits. */
function uniforms(seed: number): () => number {
  const state = new Uint32Array(size);
  state[0] = seed % 2 ** 32;
  for (let i = 1; i < size; i++) {
    const last = state[i - 1] as number;
    state[i] = Math.imul(1_812_433_253, last ^ (last >>> 30)) + i;
  }
  let at = size;
  return () => {
    if (at === size) {
      twist(state);
      at = 0;
    }
    let y = state[at] as number;
    at += 1;
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    y ^= y >>> 18;
    return (y & 0xffffff) / 0x1000000;
  };
}

function twist(state: Uint32Array): void {
  for (let i = 0; i < size; i++) {
    const bits = ((state[i] as number) & 0x80000000) | ((state[(i + 1) % size] as number) & 0x7fffffff);
    const far = state[(i + shift) % size] as number;
    state[i] = far ^ (bits >>> 1) ^ ((bits & 1) === 0 ? 0 : 0x9908b0df);
  }
}

// Logits -> the next token, as the request's sampling fields say: penalties, temperature, then the bounds. Pure.
import type { Sampling } from "../../server/text-engine.ts";

export interface Seen {
  readonly prompt: ReadonlySet<number>;
  readonly generated: ReadonlyMap<number, number>;
}

/** Less likely than the best by e^20 at the requested temperature: never drawn. */
const widestGap = 20;

/** `random`: 0 <= x < 1. */
export function sampleToken(logits: Float32Array, sampling: Sampling, seen: Seen, random: () => number): number {
  const { temperature } = sampling;
  const scores = penalised(logits, sampling, seen);
  const best = likeliest(scores);
  if (temperature === 0) return best;
  const floor = (scores[best] as number) - widestGap * temperature;
  const found: { token: number; weight: number }[] = [];
  for (let token = 0; token < scores.length; token += 1) {
    const score = scores[token] as number;
    if (score >= floor) found.push({ token, weight: Math.exp((score - (scores[best] as number)) / temperature) });
  }
  found.sort((a, b) => b.weight - a.weight);
  const kept = bounded(found, sampling);
  let left = random() * sum(kept);
  for (const { token, weight } of kept) {
    left -= weight;
    if (left < 0) return token;
  }
  return kept.at(-1)?.token ?? best;
}

function bounded<T extends { readonly weight: number }>(found: readonly T[], { topK, topP, minP }: Sampling): T[] {
  const few = found.slice(0, topK === 0 ? found.length : topK);
  const nucleus = topP * sum(few);
  let before = 0;
  return few.filter(({ weight }) => {
    const isIn = before < nucleus && weight >= minP * (few[0]?.weight ?? 0);
    before += weight;
    return isIn;
  });
}

function penalised(logits: Float32Array, sampling: Sampling, { prompt, generated }: Seen): Float32Array {
  const { presencePenalty, frequencyPenalty, repetitionPenalty } = sampling;
  if (presencePenalty === 0 && frequencyPenalty === 0 && repetitionPenalty === 1) return logits;
  const scores = logits.slice();
  if (repetitionPenalty !== 1)
    for (const token of new Set([...prompt, ...generated.keys()])) {
      const score = scores[token] as number;
      scores[token] = score > 0 ? score / repetitionPenalty : score * repetitionPenalty;
    }
  for (const [token, count] of generated)
    scores[token] = (scores[token] as number) - presencePenalty - frequencyPenalty * count;
  return scores;
}

function likeliest(scores: Float32Array): number {
  let best = 0;
  for (let token = 1; token < scores.length; token += 1)
    if ((scores[token] as number) > (scores[best] as number)) best = token;
  return best;
}

/** Natural logarithms of the model's own distribution: the token's, and the `top` likeliest. */
export function logprobsOf(logits: Float32Array, token: number, top: number) {
  const max = logits[likeliest(logits)] as number;
  let total = 0;
  for (const score of logits) total += Math.exp(score - max);
  const shift = max + Math.log(total);
  const floor = Array.from(logits).sort((a, b) => b - a)[Math.max(0, top - 1)] as number;
  const ranked: { token: number; logprob: number }[] = [];
  if (top > 0)
    for (const [id, score] of logits.entries()) if (score >= floor) ranked.push({ token: id, logprob: score - shift });
  ranked.sort((a, b) => b.logprob - a.logprob);
  return { token, logprob: (logits[token] as number) - shift, top: ranked.slice(0, top) };
}

/** A generator of 32 bits of state (mulberry32): the same seed, the same answer. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const sum = (list: readonly { readonly weight: number }[]) => list.reduce((total, { weight }) => total + weight, 0);

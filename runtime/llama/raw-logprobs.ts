// Log-probabilities of the model's own distribution. The library offers those left after temperature, top-p and grammar,
// as a list of the whole vocabulary; so the binding's sampler call is wrapped, the one place where internals are used:
// a call that requests probabilities samples as always and then reads the logits of the chosen and of the top tokens.
// A call that fails reports that there is no token: the library does not await the failure, which would end the process.
import type { LlamaContext } from "node-llama-cpp";

export const maxTopLogprobs = 20;

/** Value of the library when it sampled nothing. */
const noToken = -1;

/** The library's own words for it. */
export const foundNoToken = (error: unknown) =>
  error instanceof Error && error.message === "Failed to sample next token";

type Sampled = readonly [
  token: number,
  probabilities: number[] | undefined,
  confidence: unknown,
  logits: number[],
  weight: number,
];
type SampleToken = (...args: readonly unknown[]) => Promise<unknown>;
interface NeutralSampler {
  applyConfig(config: { temperature: number }): void;
}
interface Internals {
  readonly _ctx: { sampleToken: SampleToken };
  readonly _llama: { readonly _bindings: { readonly AddonSampler: new (model: unknown) => NeutralSampler } };
  readonly _model: { readonly _model: unknown };
}

export function reportRawLogprobs(context: LlamaContext): void {
  const { _ctx, _llama, _model } = context as unknown as Internals;
  const original: SampleToken = _ctx.sampleToken.bind(_ctx);
  const idle: NeutralSampler[] = [];
  const sample: SampleToken = async (...args) => {
    const [position, sampler, wantsProbabilities] = args;
    if (wantsProbabilities !== true) return original(...args);
    const token = (await original(position, sampler)) as number;
    if (token < 0) return [token];
    const neutral = idle.pop() ?? new _llama._bindings.AddonSampler(_model._model);
    neutral.applyConfig({ temperature: 0 });
    const filter = [[token], false, false, false, maxTopLogprobs];
    const [, , , logits, weight] = (await original(position, neutral, false, false, filter, true)) as Sampled;
    idle.push(neutral);
    return [token, toLogprobs(logits, weight)];
  };
  const sampleToken: SampleToken = (...args) => sample(...args).catch(() => (args[2] === true ? [noToken] : noToken));
  // The binding's prototype is read-only, so plain assignment would throw.
  Object.defineProperty(_ctx, "sampleToken", { value: sampleToken });
}

/** Flat [token, logit, ..], the highest first; `weight` is the sum of exp(logit - highest) over the vocabulary. */
export function toLogprobs(logits: readonly number[], weight: number): number[] {
  const offset = (logits[1] ?? 0) + Math.log(weight);
  return logits.map((value, i) => (i % 2 === 0 ? value : value - offset));
}

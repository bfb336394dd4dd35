// The contract's sampling fields -> the library's. Presence and frequency penalties count generated tokens only and are
// exact logit offsets; the repetition penalty includes the prompt.
import type {
  LlamaGrammarEvaluationState,
  LlamaModel,
  SequenceEvaluateOptions,
  Token,
  TokenBias,
} from "node-llama-cpp";
import type { Sampling } from "../server/text-engine.ts";

export interface SamplerState {
  readonly prompt: readonly number[];
  /** Grows while the choice is generated. */
  readonly generated: readonly number[];
  readonly seed: number;
  readonly grammar: LlamaGrammarEvaluationState | undefined;
  readonly newBias: () => TokenBias;
}

export function samplerOptions(sampling: Sampling, state: SamplerState, model: LlamaModel): SequenceEvaluateOptions {
  const { presencePenalty, frequencyPenalty, repetitionPenalty } = sampling;
  const hasBias = presencePenalty !== 0 || frequencyPenalty !== 0;
  return {
    temperature: sampling.temperature,
    topP: sampling.topP,
    minP: sampling.minP,
    // Null takes the sampler out; 0 would sort the whole vocabulary for every token. Its own number has 32 bits.
    topK: (sampling.topK === 0 ? null : Math.min(sampling.topK, 0x7fff_ffff)) as number,
    seed: state.seed,
    yieldEogToken: true,
    ...(state.grammar ? { grammarEvaluationState: state.grammar } : {}),
    ...(hasBias ? { tokenBias: () => biasOf(state, presencePenalty, frequencyPenalty) } : {}),
    ...(repetitionPenalty === 1
      ? {}
      : {
          repeatPenalty: {
            penalty: repetitionPenalty,
            punishTokens: () => [...state.prompt, ...state.generated] as Token[],
            maxPunishTokens: model.trainContextSize,
          },
        }),
  };
}

function biasOf(state: SamplerState, presence: number, frequency: number): TokenBias {
  const counts = new Map<number, number>();
  for (const token of state.generated) counts.set(token, (counts.get(token) ?? 0) + 1);
  const bias = state.newBias();
  for (const [token, count] of counts) bias.set(token as Token, { logit: -(presence + frequency * count) });
  return bias;
}

/** Choices of one request differ although they share its seed; llama.cpp reads the highest 32-bit number as "random". */
export function seedOf(seed: number | undefined, choice: number, random: () => number): number {
  const base = seed ?? Math.floor(random() * 0xffff_fffe);
  return (base + choice * 0x9e37_79b9) % 0xffff_ffff;
}

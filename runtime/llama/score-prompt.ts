// Log-probabilities of the prompt's own tokens (`echo` with `logprobs`): every position is asked for its logits, so
// nothing of a cached prefix can be reused. The last token is left for the generation that follows.
import type { ControlledEvaluateInputItem, LlamaModel, Token } from "node-llama-cpp";
import type { GenerationJob, TokenLogprob } from "../server/text-engine.ts";
import type { LlamaSequence } from "./llama-sequence.ts";
import type { Rounds } from "./rounds.ts";

/** Each position costs a pass over the vocabulary: short steps keep other requests and cancelling alive. */
const chunkTokens = 32;

export async function scorePrompt(
  sequence: LlamaSequence,
  { model, rounds }: { readonly model: LlamaModel; readonly rounds: Rounds },
  job: GenerationJob,
  onEvaluated: (tokens: number) => void,
  signal: AbortSignal,
): Promise<readonly TokenLogprob[]> {
  const { prompt, topLogprobs: top = 0 } = job;
  const scores: TokenLogprob[] = [{ token: prompt[0] as number, logprob: undefined, top: [], offset: 0 }];
  let text = "";
  for (let at = 0; at < prompt.length - 1; at += chunkTokens) {
    if (signal.aborted) return scores;
    const chunk = prompt.slice(at, Math.min(at + chunkTokens, prompt.length - 1));
    const input = chunk.map((token, i): ControlledEvaluateInputItem => {
      const filter = { tokens: [prompt[at + i + 1] as Token], includeTop: Math.max(1, top) };
      return [token as Token, { generateNext: { logits: { filter }, totalLogitWeight: true } }];
    });
    const answers = await rounds.run(sequence.place, () => sequence.inner.controlledEvaluate(input));
    onEvaluated(at + chunk.length);
    chunk.forEach((token, i) => {
      text += model.detokenize([token as Token], true, prompt.slice(Math.max(0, at + i - 3), at + i) as Token[]);
      const next = answers[i]?.next;
      scores.push({
        ...scoreOf(prompt[at + i + 1] as number, next?.logits, next?.totalLogitWeight ?? 1, top),
        offset: text.length,
      });
    });
  }
  return scores;
}

function scoreOf(token: number, logits: Map<Token, number> | undefined, weight: number, top: number) {
  const ranked = [...(logits ?? [])].sort(([, a], [, b]) => b - a);
  const offset = (ranked[0]?.[1] ?? 0) + Math.log(weight);
  const all = ranked.map(([id, logit]) => ({ token: id as number, logprob: logit - offset }));
  return { token, logprob: all.find((entry) => entry.token === token)?.logprob, top: all.slice(0, top) };
}

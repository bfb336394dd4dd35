// Fetches what an instance needs before its start: weights, then the image. The instance that it replaces continues to serve.
import type { Weights__Output } from "../../proto/gen/stoker/fleet/v1/Weights.ts";
import { draftWeights } from "../engines/draft-model.ts";
import { needsWeights, planInstance } from "../engines/plan-instance.ts";
import type { Attempts } from "./attempts.ts";
import { fetchBackOff } from "./back-off.ts";
import type { Step } from "./diff.ts";
import type { ContainerPlan } from "./driver.ts";
import { failureOf, isEngineUnavailable } from "./failure.ts";
import type { StepDeps } from "./step-deps.ts";

type Fetch = Extract<Step, { kind: "fetch" }>;

export function createFetch(deps: StepDeps, attempts: Attempts) {
  const { book, metrics, clock, host } = deps;

  function progressed(step: Fetch, done: number, total: number): void {
    book.change(step.id, (facts) => ({ ...facts, weights: { kind: "fetching", done, total } }));
    deps.progressed();
  }

  async function weights(step: Fetch, wanted: Weights__Output | null, signal: AbortSignal): Promise<string> {
    const beganMs = clock();
    if (!wanted) throw new Error("the specification names no weights");
    let counted = 0;
    const onProgress = (done: number, total: number): void => {
      counted = done;
      progressed(step, done, total);
    };
    const { modelPath } = await deps.weights.ensure(wanted, onProgress, signal).catch((error: unknown) => {
      if (!signal.aborted) metrics.downloadFailed(failureOf(error, "weights_failed").code);
      throw error;
    });
    if (counted > 0) metrics.took("download", (clock() - beganMs) / 1000);
    return modelPath;
  }

  async function image(step: Fetch, plan: ContainerPlan, signal: AbortSignal): Promise<void> {
    const beganMs = clock();
    let pulled = 0;
    const onProgress = (done: number, total: number): void => {
      pulled = done;
      progressed(step, done, total);
    };
    await deps.driver.pull(plan, onProgress, signal);
    if (pulled > 0) metrics.took("pull", (clock() - beganMs) / 1000);
  }

  return async function fetch(step: Fetch, signal: AbortSignal): Promise<void> {
    try {
      // Do not download gigabytes of weights for a specification that is then refused.
      const outcome = planInstance(step.spec, needsWeights(step.spec) ? "weights" : undefined, host);
      if (!outcome.ok) return await attempts.failed(step, outcome, { isTerminal: true, backOff: fetchBackOff });
      const modelPath = needsWeights(step.spec) ? await weights(step, step.spec.weights, signal) : undefined;
      const draft = draftWeights(step.spec);
      const draftPath = draft ? await weights(step, draft, signal) : undefined;
      await image(step, outcome.plan, signal);
      book.change(step.id, (facts) => ({ ...facts, weights: { kind: "here", modelPath, draftPath } }));
    } catch (error) {
      book.change(step.id, (facts) => ({ ...facts, weights: { kind: "unknown" } }));
      signal.throwIfAborted();
      // Not a failure of the instance: retry once the engine is available, without a limit.
      if (isEngineUnavailable(error)) throw error;
      const { isTerminal, ...why } = failureOf(error, "weights_failed");
      await attempts.failed(step, why, { isTerminal, backOff: fetchBackOff });
    }
  };
}

// A second, smaller model that guesses the next tokens; the model checks all of a guess in one step. It has one
// sequence for each of the model's own.
import {
  DraftSequenceTokenPredictor,
  type Llama,
  type LlamaContext,
  type LlamaContextSequence,
  type LlamaModel,
  type SequenceEvaluateOptions,
  type Token,
} from "node-llama-cpp";
import type { Predictor } from "./llama-sequence.ts";
import { LoadFailure } from "./load-failure.ts";
import type { ModelOptions } from "./model-options.ts";

/** Guesses use only the end of the text; a longer context costs more than it gains. */
const longestContext = 4096;
/** Tokens awaited before a check, unless the draft is uncertain earlier, and tokens taken if they are ready. */
const [minGuesses, maxGuesses] = [3, 8];

export interface DraftModel {
  /** Memory it has taken beside the model's. */
  readonly bytes: number;
  /** Throws LoadFailure when its vocabulary is not the model's. Call once, with one of the model's sequences. */
  check(sequence: LlamaContextSequence): Promise<void>;
  newPredictor(): Predictor;
  /** Unloads it, unless it is the model itself. */
  close(): Promise<void>;
}

export class DraftPredictor extends DraftSequenceTokenPredictor implements Predictor {
  isActive = false;
  #mustForget = false;

  forget(): void {
    this.#mustForget = true;
  }

  override async reset(state: {
    targetSequence: LlamaContextSequence;
    stateTokens: Token[];
    evaluateOptions: Readonly<SequenceEvaluateOptions>;
  }): Promise<void> {
    if (!this.isActive) return this.stop();
    if (this.#mustForget) {
      // Waits for a running guess; without it that would go on to write to the cleared sequence.
      await super.reset({ ...state, stateTokens: [] });
      await this.draftSequence.clearHistory();
      this.#mustForget = false;
    }
    await super.reset(state);
  }

  override pushTokens(tokens: Token[]): void {
    if (this.isActive) super.pushTokens(tokens);
  }

  override predictTokens(): Token[] | Promise<Token[]> {
    return this.isActive ? super.predictTokens() : [];
  }
}

type DraftOptions = Pick<ModelOptions, "modelPath" | "sequences" | "contextLength" | "threads" | "gpuLayers">;

/** `model` drafts for itself when the path is its own. */
export async function openDraft(
  llama: Llama,
  model: LlamaModel,
  path: string,
  { modelPath, sequences, contextLength, threads, gpuLayers }: DraftOptions,
): Promise<DraftModel> {
  const isSame = path === modelPath;
  const draft = isSame
    ? model
    : await llama.loadModel({ modelPath: path, gpuLayers: llama.gpu === false ? 0 : gpuLayers });
  const contextSize = Math.min(contextLength || longestContext, draft.trainContextSize, longestContext);
  const cost = await draft.fileInsights.estimateContextResourceRequirementsV2({
    contextSize,
    sequences,
    batchSize: Math.max(512, sequences),
    modelGpuLayers: draft.gpuLayers,
  });
  const context = await draft.createContext({
    sequences,
    contextSize,
    batchSize: Math.max(512, sequences),
    threads: { ideal: threads, min: threads },
  });
  return {
    bytes: (isSame ? 0 : draft.size) + Math.max(cost.cpuRam, cost.gpuVram),
    close: async () => {
      await context.dispose();
      if (!isSame) await draft.dispose();
    },
    check: (sequence) => fitsWords(context, sequence, path),
    newPredictor: () => new DraftPredictor(context.getSequence(), { minTokens: minGuesses, maxTokens: maxGuesses }),
  };
}

/** The library compares the vocabularies when a prediction begins. */
async function fitsWords(context: LlamaContext, targetSequence: LlamaContextSequence, path: string): Promise<void> {
  const sequence = context.getSequence();
  const predictor = new DraftSequenceTokenPredictor(sequence);
  try {
    await predictor.reset({ targetSequence, stateTokens: [], evaluateOptions: {} });
  } catch (error) {
    throw new LoadFailure(
      "draft model of another vocabulary",
      `${path}: a draft model must have the model's own tokens; give a smaller model of the same family (${(error as Error).message})`,
      { cause: error },
    );
  } finally {
    predictor.dispose();
    await sequence.dispose();
  }
}

// Speech recognition by Whisper models in ONNX: the port of transcription onto its thread.
import { readFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { Tokenizer } from "@huggingface/tokenizers";
import type { HearingAsk, Recogniser } from "../tasks/transcribe/recogniser.ts";
import { ThreadCalls } from "../threads/thread-calls.ts";
import type { WhisperAnswer, WhisperQuestion } from "./whisper-messages.ts";

export interface WhisperSettings {
  readonly threads: number;
  readonly device: "cpu" | "cuda";
}

type Json = Readonly<Record<string, unknown>>;
type WithoutId<Q> = Q extends { readonly id: number } ? Omit<Q, "id"> : never;

const rate = 16_000;
const windowSeconds = 30;
const tokenSeconds = 0.02;
/** Half of the decoder's positions, less the mark before them. */
const maxPromptTokens = 223;

/** `root`: the model's folder in the hub's layout. Throws Error with a sentence about what is wrong with it. */
export async function openWhisper(root: string, settings: WhisperSettings): Promise<Recogniser> {
  const config = await readJson(root, "generation_config.json");
  const begin = config["no_timestamps_token_id"];
  if (typeof begin !== "number")
    throw new Error(
      `${root}: generation_config.json names no no_timestamps_token_id; export the model with timestamps`,
    );
  const tokenizer = new Tokenizer(
    await readJson(root, "tokenizer.json"),
    await readJson(root, "tokenizer_config.json"),
  );
  const thread = new WhisperThread();
  try {
    const options = { home: `${dirname(root)}/`, name: basename(root), ...settings };
    const { hasWordTimes } = await thread.ask("opened", { kind: "open", options });
    const isMultilingual = config["is_multilingual"] === true;
    const languages = Object.keys((config["lang_to_id"] as Json | undefined) ?? {}).map((token) => token.slice(2, -2));
    return {
      rate,
      windowSeconds,
      languages: isMultilingual && languages.length > 0 ? languages : ["en"],
      canTranslate: isMultilingual && "translate" in ((config["task_to_id"] as Json | undefined) ?? {}),
      hasWordTimes,
      timestampBegin: begin + 1,
      tokenSeconds,
      maxPromptTokens,
      tokenize: (text) => tokenizer.encode(text, { add_special_tokens: false }).ids,
      textOf: (tokens) => (tokens.length === 0 ? "" : tokenizer.decode([...tokens], { skip_special_tokens: true })),
      async detectLanguage(window, signal) {
        return (await thread.ask("detected", { kind: "detect", window }, signal)).language;
      },
      async hear(window: Float32Array, ask: HearingAsk, signal: AbortSignal) {
        const stop = new Int32Array(new SharedArrayBuffer(4));
        const onAbort = () => void Atomics.store(stop, 0, 1);
        signal.addEventListener("abort", onAbort, { once: true });
        try {
          return await thread.ask("heard", { kind: "hear", window, ask, stop }, signal);
        } finally {
          signal.removeEventListener("abort", onAbort);
        }
      },
      close: () => thread.close(),
    };
  } catch (error) {
    await thread.close();
    throw error;
  }
}

class WhisperThread {
  readonly #calls = new ThreadCalls<WhisperAnswer>(new URL("./whisper-thread.ts", import.meta.url), {
    purpose: "that transcribes",
    errorOf: (answer) => (answer.kind === "failed" ? new Error(answer.message) : undefined),
  });

  /** Awaits the reply also after an abort: the thread stops at its next step, and the next request does not queue behind it. */
  async ask<K extends WhisperAnswer["kind"]>(
    kind: K,
    question: WithoutId<WhisperQuestion>,
    signal?: AbortSignal,
  ): Promise<Extract<WhisperAnswer, { kind: K }>> {
    signal?.throwIfAborted();
    const answer = await this.#calls.ask(question).catch((error: unknown) => {
      signal?.throwIfAborted();
      throw error;
    });
    signal?.throwIfAborted();
    if (answer.kind !== kind) throw new Error(`the thread that transcribes replied ${answer.kind}, not ${kind}`);
    return answer as Extract<WhisperAnswer, { kind: K }>;
  }

  close(): Promise<void> {
    return this.#calls.close();
  }
}

async function readJson(root: string, name: string): Promise<Json> {
  try {
    return JSON.parse(await readFile(join(root, name), "utf8")) as Json;
  } catch (error) {
    throw new Error(`${join(root, name)} cannot be read: ${(error as Error).message}`, { cause: error });
  }
}

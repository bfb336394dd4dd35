// Speech recognition by Whisper models in ONNX: the port of transcription onto its thread.
import { readFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { Tokenizer } from "@huggingface/tokenizers";
import type { Recogniser } from "../tasks/transcribe/recogniser.ts";
import { ThreadCalls } from "../threads/thread-calls.ts";
import type { WhisperFunctions, WhisperOptions } from "./whisper-thread.ts";

type WhisperSettings = Pick<WhisperOptions, "threads" | "device">;

type Json = Readonly<Record<string, unknown>>;

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
  const thread = new ThreadCalls<WhisperFunctions>(new URL("./whisper-thread.ts", import.meta.url), "that transcribes");
  try {
    const options = { home: `${dirname(root)}/`, name: basename(root), ...settings };
    const { hasWordTimes } = await thread.call("open", options);
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
      detectLanguage: (window, signal) => unlessAborted(signal, () => thread.call("detect", window)),
      async hear(window, ask, signal) {
        const stop = new Int32Array(new SharedArrayBuffer(4));
        const onAbort = () => void Atomics.store(stop, 0, 1);
        signal.addEventListener("abort", onAbort, { once: true });
        try {
          return await unlessAborted(signal, () => thread.call("hear", window, ask, stop));
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

/** Awaits the reply also after an abort: the thread stops at its next step, and the next request does not queue behind it. */
async function unlessAborted<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  const [outcome] = await Promise.allSettled([work()]);
  signal.throwIfAborted();
  if (outcome.status === "rejected") throw outcome.reason;
  return outcome.value;
}

async function readJson(root: string, name: string): Promise<Json> {
  try {
    return JSON.parse(await readFile(join(root, name), "utf8")) as Json;
  } catch (error) {
    throw new Error(`${join(root, name)} cannot be read: ${(error as Error).message}`, { cause: error });
  }
}

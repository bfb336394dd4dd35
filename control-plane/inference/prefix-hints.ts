// Control planes send each other which instance evaluates which prompt. These are hints: a lost one costs an evaluation, never a response.
import type { InstanceId } from "../../proto/ids.ts";
import type { PrefixIndex } from "./prefix-index.ts";
import type { PromptBlocks } from "./prompt-blocks.ts";

/** Messages between replicas; delivery is not guaranteed. */
export interface HintLink {
  publish(message: string): void;
  on(handler: (message: string) => void): void;
}

export interface PrefixHintsDeps {
  readonly index: PrefixIndex;
  readonly link: HintLink;
  /** Undefined: the instance is unknown here. */
  readonly slotOf: (instance: InstanceId) => number | undefined;
  /** Calls once, later. */
  readonly wait: (act: () => void, ms: number) => void;
}

/** Blocks at the end of a prompt that are sent: the next turn is found by any of them. */
const maxBlocksOfPrompt = 16;
const everyMs = 100;
/** Limits the work of the receivers; further prompts of that time are not sent. */
const maxBlocksOfMessage = 8_192;
/** Blocks take 88 KiB in base64. The rest is for the ids, of one instance for each block at most. */
const maxMessageChars = 512 * 1024;
const pairBytes = 8;

export class PrefixHints {
  readonly #deps: PrefixHintsDeps;
  #hints = new Map<InstanceId, number[]>();
  #count = 0;

  constructor(deps: PrefixHintsDeps) {
    this.#deps = deps;
    deps.link.on((message) => this.#receive(message));
  }

  /** Sends that `instance` evaluates the blocks from number `from` on. */
  note(instance: InstanceId, blocks: PromptBlocks, from: number): void {
    const first = Math.max(from, blocks.count - maxBlocksOfPrompt);
    if (first >= blocks.count || this.#count + blocks.count - first > maxBlocksOfMessage) return;
    if (this.#count === 0) this.#deps.wait(() => this.#publish(), everyMs);
    let numbers = this.#hints.get(instance);
    if (!numbers) {
      numbers = [];
      this.#hints.set(instance, numbers);
    }
    for (let i = first; i < blocks.count; i++) numbers.push(blocks.places[i] as number, blocks.tags[i] as number);
    this.#count += blocks.count - first;
  }

  #publish(): void {
    const hints: Record<string, string> = {};
    for (const [instance, numbers] of this.#hints)
      hints[instance] = Buffer.from(Uint32Array.from(numbers).buffer).toString("base64");
    this.#hints = new Map();
    this.#count = 0;
    this.#deps.link.publish(JSON.stringify(hints));
  }

  #receive(message: string): void {
    if (message.length > maxMessageChars) return;
    let left = maxBlocksOfMessage;
    for (const [instance, text] of entriesOf(message)) {
      const slot = this.#deps.slotOf(instance as InstanceId);
      if (slot === undefined || typeof text !== "string") continue;
      const bytes = Buffer.from(text, "base64");
      const count = Math.min(Math.floor(bytes.length / pairBytes), left);
      left -= count;
      for (let at = 0; at < count * pairBytes; at += pairBytes)
        this.#deps.index.noteBlock(bytes.readUInt32LE(at), bytes.readUInt32LE(at + 4), slot);
    }
  }
}

function entriesOf(message: string): readonly (readonly [string, unknown])[] {
  try {
    const hints: unknown = JSON.parse(message);
    return typeof hints === "object" && hints !== null ? Object.entries(hints) : [];
  } catch {
    // The message has another version or another form.
    return [];
  }
}

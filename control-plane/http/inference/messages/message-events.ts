// Converts deltas of a chat response to events of a message, and these to the whole message. Pure; never throws in a stream.
import type { ReasoningSeal } from "../../../accounts/reasoning-seals.ts";
import { messagesError } from "../../errors/error-body.ts";
import type { MessagesErrorType } from "../../errors/error-kinds.ts";
import type { ChatDelta, ChatUsage } from "../chat-deltas.ts";
import type { AnswerBlock, MessageAnswer, MessageUsage, StopReason } from "./message-answer-schemas.ts";
import { signatureOf } from "./thinking-signature.ts";
import { parseInput } from "./tool-input.ts";

type BlockDelta =
  | { readonly type: "text_delta"; readonly text: string }
  | { readonly type: "thinking_delta"; readonly thinking: string }
  | { readonly type: "signature_delta"; readonly signature: string }
  | { readonly type: "input_json_delta"; readonly partial_json: string };

export type MessageEvent =
  | { readonly type: "message_start"; readonly message: MessageAnswer }
  | { readonly type: "ping" }
  | { readonly type: "content_block_start"; readonly index: number; readonly content_block: AnswerBlock }
  | { readonly type: "content_block_delta"; readonly index: number; readonly delta: BlockDelta }
  | { readonly type: "content_block_stop"; readonly index: number }
  | {
      readonly type: "message_delta";
      readonly delta: Pick<MessageAnswer, "stop_reason" | "stop_sequence" | "stop_details" | "container">;
      readonly usage: MessageUsage;
    }
  | { readonly type: "message_stop" }
  | ({ readonly type: "error" } & ReturnType<typeof messagesError>);

export interface MessageFacts {
  readonly requestId: string;
  /** Read at the first delta, when the request is admitted. */
  readonly model: () => string;
  readonly tier: "standard" | "priority" | "batch";
  readonly stopSequences: readonly string[];
  /** Undefined: thinking is not signed. */
  readonly seal: ReasoningSeal | undefined;
  /** The text of thinking is only in its signature. */
  readonly omitsThinking: boolean;
}

/** For one response. `on` receives the events in order, during the call of `delta`. */
export class MessageEvents {
  readonly #facts: MessageFacts;
  readonly #on: (event: MessageEvent) => void;
  #hasStarted = false;
  #hasFailed = false;
  #blockCount = 0;
  #open: "text" | "thinking" | "tool_use" | undefined;
  #thinking = "";
  /** Index of the block of each call. */
  readonly #calls: number[] = [];
  #finish: Extract<ChatDelta, { kind: "finish" }> | undefined;
  #hasRefused = false;
  #usage: MessageUsage;

  constructor(facts: MessageFacts, on: (event: MessageEvent) => void) {
    this.#facts = facts;
    this.#usage = noUsage(facts.tier);
    this.#on = on;
  }

  /** Bytes kept of the response: thinking, until it is signed. */
  get keptBytes(): number {
    return this.#thinking.length;
  }

  delta(delta: ChatDelta): void {
    if (this.#hasFailed) return;
    if (delta.kind === "error") {
      this.#hasFailed = true;
      const { code, message } = delta;
      this.#on({ type: "error", ...messagesError(typeOf(code), code, message ?? engineFailed, this.#facts.requestId) });
      return;
    }
    this.#start();
    switch (delta.kind) {
      case "text":
        this.#text(delta.text);
        return;
      case "refusal":
        this.#hasRefused = true;
        this.#text(delta.text);
        return;
      case "reasoning":
        this.#reasoning(delta.text);
        return;
      case "call":
        this.#calls[delta.index] = this.#begin("tool_use", {
          type: "tool_use",
          // Readers of one resumable stream must see the same id.
          id: delta.id ?? `toolu_${this.#facts.requestId}${delta.index}`,
          name: delta.name,
          input: {},
          caller: { type: "direct" },
        });
        return;
      case "arguments":
        this.#change(this.#calls[delta.index] ?? this.#last, { type: "input_json_delta", partial_json: delta.text });
        return;
      case "finish":
        this.#finish = delta;
        return;
      case "usage":
        this.#usage = usageOf(delta.usage, this.#facts.tier);
        return;
      case "end":
        this.#end();
    }
  }

  get #last(): number {
    return this.#blockCount - 1;
  }

  #start(): void {
    if (this.#hasStarted) return;
    this.#hasStarted = true;
    this.#on({
      type: "message_start",
      message: {
        id: `msg_${this.#facts.requestId}`,
        type: "message",
        role: "assistant",
        model: this.#facts.model(),
        content: [],
        stop_reason: null,
        stop_sequence: null,
        stop_details: null,
        container: null,
        diagnostics: null,
        usage: noUsage(this.#facts.tier),
      },
    });
  }

  #text(text: string): void {
    if (this.#open !== "text") this.#begin("text", { type: "text", text: "" });
    this.#change(this.#last, { type: "text_delta", text });
  }

  #reasoning(thinking: string): void {
    if (this.#open !== "thinking") this.#begin("thinking", { type: "thinking", thinking: "", signature: "" });
    this.#thinking += thinking;
    if (!this.#facts.omitsThinking) this.#change(this.#last, { type: "thinking_delta", thinking });
  }

  #begin(kind: "text" | "thinking" | "tool_use", block: AnswerBlock): number {
    this.#close();
    this.#open = kind;
    const index = this.#blockCount;
    this.#blockCount += 1;
    this.#on({ type: "content_block_start", index, content_block: block });
    if (index === 0) this.#on({ type: "ping" });
    return index;
  }

  #change(index: number, delta: BlockDelta): void {
    this.#on({ type: "content_block_delta", index, delta });
  }

  #close(): void {
    if (this.#open === undefined) return;
    const signature = this.#open === "thinking" ? signatureOf(this.#thinking, this.#facts.seal) : "";
    if (signature !== "") this.#change(this.#last, { type: "signature_delta", signature });
    this.#thinking = "";
    this.#open = undefined;
    this.#on({ type: "content_block_stop", index: this.#last });
  }

  #end(): void {
    this.#close();
    const stop_reason = this.#stopReason();
    this.#on({
      type: "message_delta",
      delta: {
        stop_reason,
        stop_sequence: stop_reason === "stop_sequence" ? (this.#finish?.stop ?? null) : null,
        stop_details: null,
        container: null,
      },
      usage: this.#usage,
    });
    this.#on({ type: "message_stop" });
  }

  #stopReason(): StopReason {
    if (this.#hasRefused) return "refusal";
    switch (this.#finish?.reason) {
      case "length":
        return "max_tokens";
      case "content_filter":
        return "refusal";
      default: {
        // Some engines report "stop" for a call that the request demanded.
        if (this.#calls.length > 0) return "tool_use";
        const stop = this.#finish?.stop;
        return stop !== undefined && this.#facts.stopSequences.includes(stop) ? "stop_sequence" : "end_turn";
      }
    }
  }
}

/** Returns the message that a stream of these deltas would build. */
export function messageOf(deltas: readonly ChatDelta[], facts: MessageFacts): MessageAnswer {
  let message: MessageAnswer | undefined;
  const inputs = new Map<number, string>();
  const events = new MessageEvents(facts, (event) => {
    switch (event.type) {
      case "message_start":
        message = { ...event.message, content: [] };
        return;
      case "content_block_start":
        message?.content.push({ ...event.content_block });
        return;
      case "content_block_delta": {
        const { index, delta } = event;
        if (delta.type === "input_json_delta") inputs.set(index, (inputs.get(index) ?? "") + delta.partial_json);
        else append(message?.content[index], delta);
        return;
      }
      case "message_delta":
        message = { ...(message as MessageAnswer), ...event.delta, usage: event.usage };
    }
  });
  for (const delta of deltas) events.delta(delta);
  for (const [index, text] of inputs) Object.assign(message?.content[index] ?? {}, { input: parseInput(text) });
  if (!message) throw new TypeError("the engine's response contains no message");
  return message;
}

function append(block: AnswerBlock | undefined, delta: Exclude<BlockDelta, { type: "input_json_delta" }>): void {
  if (block?.type === "text" && delta.type === "text_delta") block.text += delta.text;
  if (block?.type !== "thinking") return;
  if (delta.type === "thinking_delta") block.thinking += delta.thinking;
  if (delta.type === "signature_delta") block.signature = delta.signature;
}

const usageFields = {
  cache_creation_input_tokens: 0,
  cache_creation: null,
  inference_geo: null,
  server_tool_use: null,
  speed: null,
} as const;

const noUsage = (tier: MessageFacts["tier"]): MessageUsage => ({
  ...usageFields,
  service_tier: tier,
  input_tokens: 0,
  cache_read_input_tokens: 0,
  output_tokens: 0,
  output_tokens_details: { thinking_tokens: 0 },
});

const usageOf = ({ input, cached, output, reasoning }: ChatUsage, tier: MessageFacts["tier"]): MessageUsage => ({
  ...usageFields,
  service_tier: tier,
  input_tokens: Math.max(0, input - cached),
  cache_read_input_tokens: cached,
  output_tokens: output,
  output_tokens_details: { thinking_tokens: reasoning },
});

const engineFailed = "The model server failed during the response. Send the request again.";

/** Codes of an agent that ends a response before its engine does. */
const errorTypes: Readonly<Record<string, MessagesErrorType>> = {
  drained: "overloaded_error",
  engine_timeout: "timeout_error",
};

const typeOf = (code: string | undefined): MessagesErrorType => errorTypes[code ?? ""] ?? "api_error";

// Builds a response from the deltas of a chat, and its events. The same code makes the whole response and the stream, so that both
// are equal. Pure but for `now`. Order of items: as they begin. A call stays open until the end, because engines may interleave
// the arguments of several calls; reasoning and messages end when something else begins.
import { unreachable } from "../../../../proto/unreachable.ts";
import { type ChatDelta, type ChatUsage, deltasOf } from "../chat-deltas.ts";
import { type OutputEvent, textDelta } from "./response-events.ts";
import type { ResponseFrame, ResponseState } from "./response-object.ts";
import type { CalledTool } from "./tools.ts";

export interface OutputOptions {
  readonly frame: ResponseFrame;
  /** Suffix of the ids of its items. */
  readonly idBase: string;
  /** The caller wants reasoning as its summary; default: as its content. */
  readonly isSummary: boolean;
  /** Encrypts the text of reasoning. */
  readonly seal?: ((reasoning: string) => string) | undefined;
  /** By the names of their functions. */
  readonly tools: ReadonlyMap<string, CalledTool>;
  /** Unix seconds. */
  readonly now: () => number;
}

type ItemStatus = "in_progress" | "completed" | "incomplete";

interface Reasoning {
  readonly kind: "reasoning";
  readonly index: number;
  readonly id: string;
  text: string;
}

interface Part {
  readonly type: "output_text" | "refusal";
  text: string;
  readonly logprobs: object[];
}

interface Message {
  readonly kind: "message";
  readonly index: number;
  readonly id: string;
  readonly parts: Part[];
}

interface Call {
  readonly kind: "call";
  readonly index: number;
  readonly id: string;
  readonly callId: string;
  readonly tool: CalledTool;
  arguments: string;
}

export class ResponseOutput {
  readonly #options: OutputOptions;
  readonly #on: ((event: OutputEvent) => void) | undefined;
  /** Ended items, and undefined for those that are open. */
  readonly #items: (object | undefined)[] = [];
  #open: Reasoning | Message | undefined;
  /** Open calls, by their index in the chat; undefined while there is none. */
  #calls: Map<number, Call> | undefined;
  #sequence = 0;
  #hasBegun = false;
  #final: ResponseState | undefined;
  #finish: string | undefined;
  #usage: ChatUsage | undefined;
  #keptBytes = 0;

  /** `on` receives the events in order. */
  constructor(options: OutputOptions, on?: (event: OutputEvent) => void) {
    this.#options = options;
    this.#on = on;
  }

  /** Undefined while it runs. */
  get final(): ResponseState | undefined {
    return this.#final;
  }

  /** Bytes kept of the response until its last event, estimated for log probabilities. */
  get keptBytes(): number {
    return this.#keptBytes;
  }

  take(delta: ChatDelta): void {
    if (this.#final) return;
    if ("text" in delta) this.#keptBytes += delta.text.length;
    if (delta.kind === "text" && delta.logprobs) this.#keptBytes += sizeOf(delta.logprobs);
    switch (delta.kind) {
      case "start":
        this.#begin();
        return;
      case "reasoning":
        this.#reason(delta.text);
        return;
      case "text":
        this.#say("output_text", delta.text, delta.logprobs?.map(withBytes));
        return;
      case "refusal":
        this.#say("refusal", delta.text);
        return;
      case "call":
        this.#call(delta.index, delta.id, delta.name);
        return;
      case "arguments":
        this.#argue(delta.index, delta.text);
        return;
      case "finish":
        this.#finish = delta.reason;
        return;
      case "usage":
        this.#usage = delta.usage;
        return;
      case "error":
        this.fail({ code: "server_error", message: delta.message ?? "The model server stopped during the response." });
        return;
      case "end":
        this.#complete();
        return;
      default:
        unreachable(delta);
    }
  }

  /** Ends a response whose client has disconnected; without effect on one that has ended. */
  cancel(): void {
    if (this.#final) return;
    this.#begin();
    this.#endItems("incomplete", 0);
    this.#final = { status: "cancelled", output: this.#items as object[], usage: this.#usage };
  }

  /** Ends the response with an error; without effect on one that has ended. */
  fail(error: { readonly code: string; readonly message: string }): void {
    if (this.#final) return;
    this.#begin();
    this.#endItems("incomplete", 0);
    this.#end({ status: "failed", output: this.#items as object[], usage: this.#usage, error });
  }

  #complete(): void {
    this.#begin();
    if (this.#items.length === 0) this.#say("output_text", "");
    const reason = incompleteReasons.get(this.#finish ?? "");
    // Only the last item of a response that was cut at its limit is incomplete.
    this.#endItems(reason ? "incomplete" : "completed", this.#items.length - 1);
    const common = { output: this.#items as object[], usage: this.#usage };
    if (reason) this.#end({ ...common, status: "incomplete", incompleteReason: reason });
    else this.#end({ ...common, status: "completed", completedAt: this.#options.now() });
  }

  #end(state: ResponseState): void {
    this.#final = state;
    this.#on?.({ type: `response.${state.status}`, sequence_number: this.#sequence++, state });
  }

  #begin(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    const state: ResponseState = { status: "in_progress", output: [] };
    this.#on?.({ type: "response.created", sequence_number: this.#sequence++, state });
    this.#on?.({ type: "response.in_progress", sequence_number: this.#sequence++, state });
  }

  #emit(type: string, fields: object): void {
    this.#on?.({ type, sequence_number: this.#sequence++, ...fields });
  }

  #add(prefix: string): { readonly index: number; readonly id: string } {
    this.#begin();
    const index = this.#items.length;
    this.#items.push(undefined);
    return { index, id: `${prefix}_${this.#options.idBase}_${index}` };
  }

  #reason(text: string): void {
    const { isSummary } = this.#options;
    if (this.#open?.kind !== "reasoning") {
      this.#endOpen("completed");
      const open: Reasoning = { kind: "reasoning", ...this.#add("rs"), text: "" };
      this.#open = open;
      this.#emit("response.output_item.added", {
        output_index: open.index,
        item: {
          id: open.id,
          type: "reasoning",
          summary: [],
          ...(isSummary ? {} : { content: [] }),
          status: "in_progress",
        },
      });
      const at = { item_id: open.id, output_index: open.index };
      if (isSummary) {
        const part = { type: "summary_text", text: "" };
        this.#emit("response.reasoning_summary_part.added", { ...at, summary_index: 0, part });
      } else {
        const part = { type: "reasoning_text", text: "" };
        this.#emit("response.content_part.added", { ...at, content_index: 0, part });
      }
    }
    const open = this.#open as Reasoning;
    open.text += text;
    const at = { item_id: open.id, output_index: open.index };
    if (isSummary) this.#emit("response.reasoning_summary_text.delta", { ...at, summary_index: 0, delta: text });
    else this.#emit("response.reasoning_text.delta", { ...at, content_index: 0, delta: text });
  }

  #say(type: Part["type"], text: string, logprobs: readonly object[] = none): void {
    if (this.#open?.kind !== "message") {
      this.#endOpen("completed");
      const open: Message = { kind: "message", ...this.#add("msg"), parts: [] };
      this.#open = open;
      const item = { id: open.id, type: "message", status: "in_progress", role: "assistant", content: [] };
      this.#emit("response.output_item.added", { output_index: open.index, item });
    }
    const open = this.#open as Message;
    let part = open.parts.at(-1);
    if (part?.type !== type) {
      this.#endPart(open);
      part = { type, text: "", logprobs: [] };
      open.parts.push(part);
      this.#emit("response.content_part.added", { ...this.#at(open), part: partOf(part) });
    }
    if (text === "") return;
    part.text += text;
    if (logprobs.length > 0) part.logprobs.push(...logprobs);
    if (type === "refusal") this.#emit("response.refusal.delta", { ...this.#at(open), delta: text });
    else
      this.#on?.({
        type: textDelta,
        sequence_number: this.#sequence++,
        item_id: open.id,
        output_index: open.index,
        content_index: open.parts.length - 1,
        delta: text,
        logprobs,
      });
  }

  #call(key: number, id: string | undefined, name: string): void {
    this.#endOpen("completed");
    // A model may call what it was not given.
    const tool = this.#options.tools.get(name) ?? { name, namespace: undefined, isCustom: false };
    const added = this.#add(tool.isCustom ? "ctc" : "fc");
    const callId = id ?? `call_${this.#options.idBase}_${added.index}`;
    const call: Call = { kind: "call", ...added, callId, tool, arguments: "" };
    this.#calls ??= new Map();
    this.#calls.set(key, call);
    this.#emit("response.output_item.added", { output_index: call.index, item: callItem(call, "in_progress", "") });
  }

  #argue(key: number, text: string): void {
    const call = this.#calls?.get(key);
    if (!call) return;
    call.arguments += text;
    // The input of a custom tool is a JSON string, decoded when it is complete.
    if (call.tool.isCustom) return;
    const at = { item_id: call.id, output_index: call.index };
    this.#emit("response.function_call_arguments.delta", { ...at, delta: text });
  }

  /** `from`: index of the first item that may have this status; earlier ones are complete. */
  #endItems(status: ItemStatus, from: number): void {
    const statusOf = (index: number): ItemStatus => (index >= from ? status : "completed");
    if (this.#calls) for (const call of this.#calls.values()) this.#endCall(call, statusOf(call.index));
    this.#calls = undefined;
    if (this.#open) this.#endOpen(statusOf(this.#open.index));
  }

  #endCall(call: Call, status: ItemStatus): void {
    const at = { item_id: call.id, output_index: call.index };
    const given = call.tool.isCustom ? inputOf(call.arguments) : call.arguments;
    if (call.tool.isCustom) {
      if (given !== "") this.#emit("response.custom_tool_call_input.delta", { ...at, delta: given });
      this.#emit("response.custom_tool_call_input.done", { ...at, input: given });
    } else {
      this.#emit("response.function_call_arguments.done", { ...at, name: call.tool.name, arguments: given });
    }
    this.#endItem(call.index, callItem(call, status, given));
  }

  #endOpen(status: ItemStatus): void {
    const open = this.#open;
    if (!open) return;
    this.#open = undefined;
    if (open.kind === "reasoning") this.#endReasoning(open, status);
    else {
      this.#endPart(open);
      const content = open.parts.map(partOf);
      this.#endItem(open.index, { id: open.id, type: "message", status, role: "assistant", content });
    }
  }

  #endReasoning({ id, index, text }: Reasoning, status: ItemStatus): void {
    const { isSummary, seal } = this.#options;
    const at = { item_id: id, output_index: index };
    const part = { type: isSummary ? "summary_text" : "reasoning_text", text };
    if (isSummary) {
      this.#emit("response.reasoning_summary_text.done", { ...at, summary_index: 0, text });
      this.#emit("response.reasoning_summary_part.done", { ...at, summary_index: 0, part });
    } else {
      this.#emit("response.reasoning_text.done", { ...at, content_index: 0, text });
      this.#emit("response.content_part.done", { ...at, content_index: 0, part });
    }
    this.#endItem(index, {
      id,
      type: "reasoning",
      summary: isSummary ? [part] : [],
      ...(isSummary ? {} : { content: [part] }),
      ...(seal ? { encrypted_content: seal(text) } : {}),
      status,
    });
  }

  #endPart(message: Message): void {
    const part = message.parts.at(-1);
    if (!part || !this.#on) return;
    const at = this.#at(message);
    if (part.type === "refusal") this.#emit("response.refusal.done", { ...at, refusal: part.text });
    else this.#emit("response.output_text.done", { ...at, text: part.text, logprobs: part.logprobs });
    this.#emit("response.content_part.done", { ...at, part: partOf(part) });
  }

  #endItem(index: number, item: object): void {
    this.#items[index] = item;
    this.#emit("response.output_item.done", { output_index: index, item });
  }

  #at({ id, index, parts }: Message) {
    return { item_id: id, output_index: index, content_index: Math.max(0, parts.length - 1) };
  }
}

/** State of a response that arrived whole. Throws where it is not a chat completion. */
export function wholeOutput(options: OutputOptions, body: Buffer): ResponseState {
  const output = new ResponseOutput(options);
  for (const delta of deltasOf(body.toString())) output.take(delta);
  if (!output.final) throw new TypeError("the engine's response has no end");
  return output.final;
}

/** A chat may omit the bytes of a token; a response must have them. */
function withBytes(entry: object): object {
  const { token, bytes, top_logprobs: top } = entry as Readonly<Record<string, unknown>>;
  return {
    ...entry,
    ...(Array.isArray(bytes) ? {} : { bytes: [...Buffer.from(typeof token === "string" ? token : "")] }),
    ...(Array.isArray(top) ? { top_logprobs: top.map(withBytes) } : {}),
  };
}

const none: readonly object[] = [];
const logprobBytes = 100;

const sizeOf = (logprobs: readonly object[]): number =>
  logprobs.reduce((bytes, one) => {
    const { top_logprobs: top } = one as { readonly top_logprobs?: unknown };
    return bytes + logprobBytes * (1 + (Array.isArray(top) ? top.length : 0));
  }, 0);

const incompleteReasons: ReadonlyMap<string, "max_output_tokens" | "content_filter"> = new Map([
  ["length", "max_output_tokens"],
  ["content_filter", "content_filter"],
]);

const partOf = ({ type, text, logprobs }: Part): object =>
  type === "refusal" ? { type, refusal: text } : { type, text, annotations: [], logprobs: [...logprobs] };

function callItem({ id, callId, tool }: Call, status: ItemStatus, given: string): object {
  const { name, namespace, isCustom } = tool;
  const common = { id, call_id: callId, name, ...(namespace === undefined ? {} : { namespace }), status };
  return isCustom
    ? { ...common, type: "custom_tool_call", input: given }
    : { ...common, type: "function_call", arguments: given };
}

/** Input of a custom tool, from the arguments of its function. A model may ignore the schema: then its text is the input. */
function inputOf(given: string): string {
  try {
    const value: unknown = JSON.parse(given);
    const input = (value as { readonly input?: unknown } | null)?.input;
    return typeof input === "string" ? input : given;
  } catch {
    return given;
  }
}

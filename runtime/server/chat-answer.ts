// Chat completions on the wire: deltas, tool calls, the whole message.
import { randomBytes } from "node:crypto";
import type { ToolCallParser, ToolEvent } from "../llama/tools/tool-format.ts";
import type { AnswerFormat, AnswerOptions } from "./answer-format.ts";
import type { FinishReason, Piece, TokenLogprob } from "./text-engine.ts";

interface ToolCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; arguments: string };
}

interface ChoiceState {
  text: string;
  reasoning: string;
  isReasoning: boolean;
  readonly calls: ToolCall[];
  readonly logprobs: TokenLogprob[];
  readonly parser: ToolCallParser | undefined;
  hasRole: boolean;
  reason: FinishReason | "tool_calls" | null;
  stop: string | undefined;
}

export class ChatAnswer implements AnswerFormat {
  readonly objects = { frame: "chat.completion.chunk", whole: "chat.completion" };
  readonly wholeTail = { service_tier: "default" };
  reasoningTokens = 0;
  readonly #options: AnswerOptions;
  readonly #choices: readonly ChoiceState[];

  /** `newParser` reads reasoning and tool calls; its parser is undefined where all is text. */
  constructor(options: AnswerOptions, newParser: () => ToolCallParser | undefined) {
    this.#options = options;
    this.#choices = Array.from({ length: options.choices }, () => ({
      text: "",
      reasoning: "",
      isReasoning: false,
      calls: [],
      logprobs: [],
      parser: newParser(),
      hasRole: false,
      reason: null,
      stop: undefined,
    }));
  }

  piece(index: number, piece: Piece): readonly unknown[] {
    const choice = this.#choices[index] as ChoiceState;
    choice.logprobs.push(...piece.logprobs);
    const events: readonly ToolEvent[] = choice.parser
      ? choice.parser.push(piece.text)
      : [{ kind: "text", text: piece.text }];
    const last = events.at(-1);
    const hasReasoned = events.some(({ kind }) => kind === "reasoning");
    if (hasReasoned || (choice.isReasoning && !last)) this.reasoningTokens += piece.tokens ?? 0;
    if (last) choice.isReasoning = last.kind === "reasoning";
    return this.#frames(index, choice, events, piece.logprobs);
  }

  finish(index: number, reason: FinishReason, stop?: string): readonly unknown[] {
    const choice = this.#choices[index] as ChoiceState;
    const frames = this.#frames(index, choice, choice.parser?.end() ?? [], []);
    choice.reason = reason === "stop" && choice.calls.length > 0 ? "tool_calls" : reason;
    choice.stop = stop;
    const delta = this.#withRole(choice, choice.hasRole ? {} : { content: "" });
    return [...frames, { index, delta, finish_reason: choice.reason, ...stopOf(choice) }];
  }

  whole(): readonly unknown[] {
    return this.#choices.map((choice, index) => ({
      index,
      message: {
        role: "assistant",
        content: choice.text === "" && choice.calls.length > 0 ? null : choice.text,
        reasoning_content: choice.reasoning === "" ? null : choice.reasoning,
        ...(choice.calls.length > 0 ? { tool_calls: choice.calls } : {}),
      },
      finish_reason: choice.reason,
      ...stopOf(choice),
      logprobs: this.#logprobs(choice.logprobs),
    }));
  }

  #frames(index: number, choice: ChoiceState, events: readonly ToolEvent[], scores: readonly TokenLogprob[]) {
    if (events.length === 0 && scores.length === 0) return [];
    let content = "";
    let reasoning = "";
    const calls = new Map<number, Record<string, unknown>>();
    for (const event of events) {
      if (event.kind === "text") {
        content += event.text;
        choice.text += event.text;
      } else if (event.kind === "reasoning") {
        reasoning += event.text;
        choice.reasoning += event.text;
      } else if (event.kind === "call") {
        const call: ToolCall = { id: newCallId(), type: "function", function: { name: event.name, arguments: "" } };
        choice.calls[event.index] = call;
        calls.set(event.index, { index: event.index, ...call, function: { ...call.function } });
      } else {
        (choice.calls[event.index] as ToolCall).function.arguments += event.text;
        const delta = calls.get(event.index) ?? { index: event.index, function: { arguments: "" } };
        (delta["function"] as { arguments: string }).arguments += event.text;
        calls.set(event.index, delta);
      }
    }
    const delta = this.#withRole(choice, {
      ...(reasoning !== "" ? { reasoning_content: reasoning } : {}),
      ...(content !== "" || (calls.size === 0 && reasoning === "") ? { content } : {}),
      ...(calls.size > 0 ? { tool_calls: [...calls.values()] } : {}),
    });
    const logprobs = this.#options.hasLogprobs ? { logprobs: this.#logprobs(scores) } : {};
    return [{ index, delta, ...logprobs, finish_reason: null }];
  }

  #withRole(choice: ChoiceState, delta: object): object {
    if (choice.hasRole) return delta;
    choice.hasRole = true;
    return { role: "assistant", ...delta };
  }

  #logprobs(scores: readonly TokenLogprob[]) {
    if (!this.#options.hasLogprobs) return null;
    const entry = (token: number, logprob: number | undefined) => {
      const name = this.#options.nameOf(token);
      return { token: name, logprob: logprob ?? null, bytes: name.includes("\uFFFD") ? null : [...Buffer.from(name)] };
    };
    return {
      content: scores.map((score) => ({
        ...entry(score.token, score.logprob),
        top_logprobs: score.top.map((other) => entry(other.token, other.logprob)),
      })),
    };
  }
}

const newCallId = () => `call_${randomBytes(18).toString("base64url").replace(/[-_]/g, "x")}`;

/** Stop sequence that ended a choice, under the name that vLLM gives it. */
const stopOf = ({ stop }: ChoiceState): object => (stop === undefined ? {} : { stop_reason: stop });

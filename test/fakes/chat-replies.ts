// Random replies of an engine to a chat, as a whole and as the chunks of a stream. The parts of a field are cut at random.
import fc from "fast-check";

export interface ReplyCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

export interface ChatReply {
  readonly reasoning: string;
  readonly text: string;
  readonly calls: readonly ReplyCall[];
  readonly finish: "stop" | "length" | "tool_calls";
  readonly usage: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly total_tokens: number;
    readonly estimated_cost: number;
    readonly prompt_tokens_details: { readonly cached_tokens: number };
    readonly completion_tokens_details: { readonly reasoning_tokens: number };
  };
}

const said = fc.oneof(
  { weight: 1, arbitrary: fc.constant("") },
  { weight: 4, arbitrary: fc.string({ unit: "grapheme", maxLength: 40 }) },
);
/** Integers beyond 2^53 have tests of their own. */
const safeNumber = (_key: string, value: unknown) =>
  typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER ? 1 : value;
const call = fc.record({
  id: fc.string({ unit: fc.constantFrom(..."abc123"), minLength: 1, maxLength: 8 }).map((id) => `call_${id}`),
  name: fc.constantFrom("get_weather", "web__search", "run"),
  arguments: fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.stringify({ value }, safeNumber)),
});

export const chatReply: fc.Arbitrary<ChatReply> = fc
  .record({
    reasoning: said,
    text: said,
    calls: fc.array(call, { maxLength: 3 }),
    isCut: fc.boolean(),
    input: fc.nat(1000),
    output: fc.nat(1000),
    cached: fc.nat(100),
    thought: fc.nat(100),
  })
  .map(({ reasoning, text, calls, isCut, input, output, cached, thought }) => ({
    reasoning,
    text,
    calls,
    finish: isCut ? "length" : calls.length > 0 ? "tool_calls" : "stop",
    usage: {
      prompt_tokens: input,
      completion_tokens: output,
      total_tokens: input + output,
      estimated_cost: (input + output) / 1e9,
      prompt_tokens_details: { cached_tokens: cached },
      completion_tokens_details: { reasoning_tokens: thought },
    },
  }));

const head = { id: "chatcmpl-1", created: 1, model: "org/model" };

export function wholeReply({ reasoning, text, calls, finish, usage }: ChatReply): string {
  const message = {
    role: "assistant",
    content: text === "" ? null : text,
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0
      ? {}
      : { tool_calls: calls.map(({ id, ...rest }) => ({ id, type: "function", function: rest })) }),
  };
  const choices = [{ index: 0, message, finish_reason: finish, logprobs: null }];
  return JSON.stringify({ ...head, object: "chat.completion", choices, usage });
}

const chunk = (delta: object, finish: string | null = null, rest: object = {}) =>
  JSON.stringify({
    ...head,
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, finish_reason: finish }],
    ...rest,
  });

/** `cut` divides a text into parts, which may be empty. Text of events, without `data:` and without [DONE]. */
export function chunksOf({ reasoning, text, calls, finish, usage }: ChatReply, cut: (text: string) => string[]) {
  return [
    chunk({ role: "assistant", content: "" }),
    ...cut(reasoning).map((part) => chunk({ reasoning_content: part })),
    ...cut(text).map((part) => chunk({ content: part })),
    ...calls.flatMap(({ id, name, arguments: given }, index) => [
      chunk({ tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] }),
      ...cut(given).map((part) => chunk({ tool_calls: [{ index, function: { arguments: part } }] })),
    ]),
    chunk({}, finish, { usage }),
  ];
}

/** Cuts between characters, at positions drawn from `seed`. */
export function cutBy(seed: number): (text: string) => string[] {
  let state = seed >>> 0;
  const next = (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state % below;
  };
  return (text) => {
    const parts: string[] = [];
    let rest = [...text];
    while (rest.length > 0) {
      const size = 1 + next(7);
      parts.push(rest.slice(0, size).join(""));
      rest = rest.slice(size);
    }
    return parts;
  };
}

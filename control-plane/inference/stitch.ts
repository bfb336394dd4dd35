// Joins two runs of one stream of a chat or text completion: drops from the second what the first has already sent. Pure. Two runs
// send the same text in different pieces, so it is compared character by character.

/** The second run generated something else. */
export class StreamDiverged extends Error {
  override readonly name = "StreamDiverged";
}

type Json = Record<string, unknown>;

/** Fields whose texts continue from chunk to chunk. */
const texts = ["content", "reasoning_content", "reasoning", "refusal", "text"] as const;

/**
 * `sent`: the data of each event of earlier runs, in order. `next` takes the data of each event of the new run. Events are chunks of an
 * OpenAI-compatible stream.
 */
export class Stitch {
  /** By choice and field. */
  readonly #sent = new Map<string, string>();
  /** Characters of `#sent` that the new run has repeated. */
  readonly #repeated = new Map<string, number>();
  /** Parts that a stream has only once: roles, starts of calls, ends of choices, usage. */
  readonly #once = new Set<string>();
  #id: unknown;
  #created: unknown;

  constructor(sent: Iterable<string>) {
    for (const data of sent) this.#note(data);
  }

  /** Returns what of the event is new, as the data of an event; undefined: nothing. Throws StreamDiverged. */
  next(data: string): string | undefined {
    if (data === "[DONE]") {
      this.#requireWhole("");
      return data;
    }
    const chunk = objectIn(data);
    if (!chunk) return data;
    chunk["id"] = this.#id ?? chunk["id"];
    chunk["created"] = this.#created ?? chunk["created"];
    const choices = objects(chunk["choices"]);
    if (choices.length === 0) return this.#once.has("usage") ? undefined : JSON.stringify(chunk);
    const left = choices.filter((choice) => this.#trim(choice));
    chunk["choices"] = left;
    return left.length === 0 ? undefined : JSON.stringify(chunk);
  }

  #note(data: string): void {
    const chunk = objectIn(data);
    if (!chunk) return;
    this.#id ??= chunk["id"];
    this.#created ??= chunk["created"];
    const choices = objects(chunk["choices"]);
    if (choices.length === 0 && chunk["usage"] != null) this.#once.add("usage");
    for (const choice of choices) {
      const at = `${indexOf(choice)}.`;
      const delta = deltaOf(choice);
      if (delta["role"] != null) this.#once.add(`${at}role`);
      for (const field of texts) this.#add(at + field, delta[field]);
      for (const call of objects(delta["tool_calls"])) {
        const called = object(call["function"]);
        if (called?.["name"] != null) this.#once.add(callKey(at, call));
        this.#add(`${callKey(at, call)}.arguments`, called?.["arguments"]);
      }
      if (choice["finish_reason"] != null) this.#once.add(`${at}end`);
    }
  }

  #add(key: string, text: unknown): void {
    if (typeof text === "string") this.#sent.set(key, (this.#sent.get(key) ?? "") + text);
  }

  /** Removes from the choice what was sent. Returns false when nothing is left. */
  #trim(choice: Json): boolean {
    const at = `${indexOf(choice)}.`;
    const delta = deltaOf(choice);
    if (this.#once.has(`${at}role`)) delete delta["role"];
    let hasNews = delta["role"] != null;
    for (const field of texts) {
      const text = delta[field];
      if (typeof text !== "string") continue;
      const rest = this.#rest(at + field, text);
      delta[field] = rest;
      if (rest === "") continue;
      hasNews = true;
      if (rest.length < text.length) trimLogprobs(choice, text.length - rest.length);
    }
    const calls = objects(delta["tool_calls"]).filter((call) => this.#trimCall(call, at));
    if (calls.length > 0) delta["tool_calls"] = calls;
    else delete delta["tool_calls"];
    hasNews ||= calls.length > 0;
    const hasEnded = this.#once.has(`${at}end`);
    if (hasNews && hasEnded) throw new StreamDiverged("the new run goes on where an earlier one ended");
    if (choice["finish_reason"] == null) return hasNews;
    this.#requireWhole(at);
    return hasNews || !hasEnded;
  }

  #trimCall(call: Json, at: string): boolean {
    const called = object(call["function"]);
    if (!called) return true;
    const key = callKey(at, call);
    const hasBegun = this.#once.has(key);
    if (hasBegun) {
      // Ids of calls differ from run to run.
      delete call["id"];
      delete call["type"];
      delete called["name"];
    }
    const text = called["arguments"];
    const rest = typeof text === "string" ? this.#rest(`${key}.arguments`, text) : "";
    if (typeof text === "string") called["arguments"] = rest;
    return rest !== "" || (!hasBegun && called["name"] != null);
  }

  #rest(key: string, text: string): string {
    const sent = this.#sent.get(key) ?? "";
    const repeated = this.#repeated.get(key) ?? 0;
    const known = Math.min(text.length, sent.length - repeated);
    if (known === 0) return text;
    if (!sent.startsWith(text.slice(0, known), repeated))
      throw new StreamDiverged("the new run generated something else");
    this.#repeated.set(key, repeated + known);
    return text.slice(known);
  }

  #requireWhole(prefix: string): void {
    for (const [key, sent] of this.#sent)
      if (key.startsWith(prefix) && (this.#repeated.get(key) ?? 0) < sent.length)
        throw new StreamDiverged("the new run ended before an earlier one");
  }
}

const indexOf = ({ index }: Json): number => (typeof index === "number" ? index : 0);
const callKey = (at: string, call: Json): string => `${at}call${indexOf(call)}`;
/** A text completion has its text beside the index. */
const deltaOf = (choice: Json): Json => object(choice["delta"]) ?? choice;

/** Drops the entries of the first `characters` of the text. */
function trimLogprobs(choice: Json, characters: number): void {
  const logprobs = object(choice["logprobs"]);
  if (!logprobs) return;
  const entries = objects(logprobs["content"]);
  let first = 0;
  for (let passed = 0; first < entries.length && passed < characters; first++)
    passed += String(entries[first]?.["token"]).length;
  logprobs["content"] = entries.slice(first);
}

const object = (value: unknown): Json | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : undefined;

const objects = (value: unknown): Json[] =>
  Array.isArray(value) ? value.filter((one): one is Json => object(one) !== undefined) : [];

function objectIn(data: string): Json | undefined {
  try {
    return object(JSON.parse(data));
  } catch {
    return undefined;
  }
}

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Stitch, StreamDiverged } from "../../../../control-plane/inference/stitch.ts";

/** Chunks of one choice, its texts cut at `cuts`. */
function runOf(fields: Readonly<Record<string, string>>, cuts: readonly number[], id: string): string[] {
  const chunk = (delta: object, finish: string | null = null) =>
    JSON.stringify({ id, created: id.length, choices: [{ index: 0, delta, finish_reason: finish }] });
  const events = [chunk({ role: "assistant", content: "" })];
  for (const [field, text] of Object.entries(fields)) {
    const letters = [...text];
    const ends = [...new Set(cuts.map((cut) => cut % (letters.length + 1)))].sort((a, b) => a - b);
    let from = 0;
    for (const to of [...ends, letters.length]) {
      if (to > from) events.push(chunk({ [field]: letters.slice(from, to).join("") }));
      from = to;
    }
  }
  return [...events, chunk({}, "stop"), JSON.stringify({ id, choices: [], usage: { total_tokens: 3 } }), "[DONE]"];
}

interface Read {
  readonly ids: Set<unknown>;
  readonly texts: Record<string, string>;
  finishes: number;
  usages: number;
  roles: number;
}

function read(events: readonly string[]): Read {
  const found: Read = { ids: new Set(), texts: {}, finishes: 0, usages: 0, roles: 0 };
  for (const data of events.filter((event) => event !== "[DONE]")) {
    const chunk = JSON.parse(data);
    found.ids.add(chunk.id);
    if (chunk.usage) found.usages += 1;
    for (const { delta, finish_reason } of chunk.choices) {
      const { role, ...texts } = delta;
      if (role) found.roles += 1;
      for (const [field, text] of Object.entries(texts)) found.texts[field] = (found.texts[field] ?? "") + text;
      if (finish_reason) found.finishes += 1;
    }
  }
  return found;
}

const text = fc.string({ unit: "binary", minLength: 1, maxLength: 40 }).map((one) => one.toWellFormed());
const cuts = fc.array(fc.nat(100), { maxLength: 8 });

describe("stitch", () => {
  it("gives the events of one run, wherever it was cut and whatever its pieces were", () => {
    fc.assert(
      fc.property(text, text, cuts, cuts, fc.nat(100), (reasoning, content, first, second, at) => {
        const fields = { reasoning_content: reasoning, content };
        const whole = runOf(fields, first, "a");
        const sent = whole.slice(0, at % whole.length);
        const stitch = new Stitch(sent);
        const rest = runOf(fields, second, "bcd").flatMap((event) => stitch.next(event) ?? []);
        const joined = read([...sent, ...rest]);
        expect(joined.texts).toEqual(fields);
        expect({ ...joined, ids: joined.ids.size, texts: 0 }).toEqual({
          ids: 1,
          texts: 0,
          finishes: 1,
          usages: 1,
          roles: 1,
        });
        expect(rest.at(-1)).toBe("[DONE]");
      }),
    );
  });

  it("refuses a run that generated something else, ended earlier, or goes on after the end", () => {
    const sent = runOf({ content: "one two three" }, [4], "a");
    const half = new Stitch(sent.slice(0, 2));
    expect(half.next(sent[0] as string)).toBeUndefined();
    expect(() => half.next(runOf({ content: "one more" }, [], "b")[1] as string)).not.toThrow();
    const other = new Stitch(sent.slice(0, 3));
    expect(() => other.next(runOf({ content: "one more" }, [], "b")[1] as string)).toThrow(StreamDiverged);
    const short = new Stitch(sent.slice(0, 3));
    expect(() => runOf({ content: "one two" }, [], "b").map((event) => short.next(event))).toThrow(StreamDiverged);
    const long = new Stitch(sent.slice(0, 4));
    expect(() => runOf({ content: "one two three four" }, [], "b").map((event) => long.next(event))).toThrow(
      StreamDiverged,
    );
  });

  it("continues the arguments of a call under the id that was sent", () => {
    const call = (index: number, fn: object, id?: string) =>
      JSON.stringify({
        id: "x",
        choices: [
          { index: 0, delta: { tool_calls: [{ index, ...(id ? { id, type: "function" } : {}), function: fn }] } },
        ],
      });
    const sent = [call(0, { name: "weather", arguments: "" }, "call_1"), call(0, { arguments: '{"city":"P' })];
    const stitch = new Stitch(sent);
    expect(stitch.next(call(0, { name: "weather", arguments: "" }, "call_2"))).toBeUndefined();
    const rest = JSON.parse(stitch.next(call(0, { arguments: '{"city":"Paris"}' })) as string);
    expect(rest.choices[0].delta.tool_calls).toEqual([{ index: 0, function: { arguments: 'aris"}' } }]);
    const second = JSON.parse(stitch.next(call(1, { name: "time", arguments: "{}" }, "call_3")) as string);
    expect(second.choices[0].delta.tool_calls[0].id).toBe("call_3");
  });

  it("keeps choices apart, and trims the probabilities with the text", () => {
    const chunk = (index: number, content: string) =>
      JSON.stringify({
        id: "x",
        choices: [{ index, delta: { content }, logprobs: { content: [...content].map((token) => ({ token })) } }],
      });
    const stitch = new Stitch([chunk(1, "ab"), chunk(0, "x")]);
    expect(stitch.next(chunk(0, "x"))).toBeUndefined();
    const rest = JSON.parse(stitch.next(chunk(1, "abc")) as string);
    expect(rest.choices).toEqual([{ index: 1, delta: { content: "c" }, logprobs: { content: [{ token: "c" }] } }]);
  });
});

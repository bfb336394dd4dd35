import { afterAll, describe, expect, it } from "vitest";
import { asTenant } from "../../../../../runtime/batch/tenant.ts";
import { GrammarCompiler } from "../../../../../runtime/llama/grammar/grammar-compiler.ts";
import type { Constraint } from "../../../../../runtime/server/text-engine.ts";

const compilers: GrammarCompiler[] = [];
const newCompiler = () => {
  const made = new GrammarCompiler();
  compilers.push(made);
  return made;
};
afterAll(() => Promise.all(compilers.map((one) => one.close())));

const format = (name: string): Constraint => ({ kind: "json-schema", schema: { const: name } });
const present = () => new AbortController().signal;

describe("formats that wait to be compiled", () => {
  it("are compiled in turns by tenant", async () => {
    const compiler = newCompiler();
    const order: string[] = [];
    const request = (tenant: string, name: string) =>
      asTenant(tenant, async () => {
        await compiler.compile(format(name), present());
        order.push(tenant);
      });
    const flood = Array.from({ length: 15 }, (_, n) => request("a", `a${n}`));
    const others = ["x", "y"].map((name) => request("b", name));
    await Promise.all([...flood, ...others]);
    expect(order).toHaveLength(17);
    // The format in progress goes on, and each of the two waits for at most one other.
    expect(order.lastIndexOf("b")).toBeLessThanOrEqual(4);
  });

  it("are not compiled after their client has left", async () => {
    const compiler = newCompiler();
    const client = new AbortController();
    const compiled: string[] = [];
    const request = (name: string, signal: AbortSignal) =>
      compiler.compile(format(name), signal).then(() => void compiled.push(name));
    const first = request("first", present());
    const left = Array.from({ length: 10 }, (_, n) => request(`left ${n}`, client.signal));
    const last = request("last", present());
    client.abort(new Error("client left"));
    const outcomes = await Promise.allSettled(left);
    expect(outcomes.map(({ status }) => status)).toEqual(left.map(() => "rejected"));
    await Promise.all([first, last]);
    expect(compiled).toEqual(["first", "last"]);
  });

  it("are refused above 16 waiting of one tenant, and another tenant's are compiled", async () => {
    const compiler = newCompiler();
    const client = new AbortController();
    const flood = asTenant("a", () =>
      Array.from({ length: 17 }, (_, n) => compiler.compile(format(`a${n}`), client.signal)),
    );
    await expect(asTenant("a", () => compiler.compile(format("a"), present()))).rejects.toThrow(/too many requests/);
    const other = asTenant("b", () => compiler.compile(format("b"), present()));
    client.abort(new Error("client left"));
    await Promise.allSettled(flood);
    expect((await other).gbnf).toContain("b");
    await asTenant("a", () => compiler.compile(format("a"), present()));
  });
});

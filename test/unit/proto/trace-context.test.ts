import { describe, expect, it } from "vitest";
import { readTraceContext, traceHeaders, traceparent, unsampledContext } from "../../../proto/trace-context.ts";

const [traceId, spanId] = ["4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"];
const valid = `00-${traceId}-${spanId}-01`;

describe("readTraceContext", () => {
  it("reads the ids and the sampled flag", () => {
    expect(readTraceContext(valid, undefined)).toEqual({ traceId, spanId, isSampled: true });
    expect(readTraceContext(`00-${traceId}-${spanId}-00`, undefined)?.isSampled).toBe(false);
    expect(readTraceContext(`00-${traceId}-${spanId}-03`, undefined)?.isSampled).toBe(true);
  });

  it("reads a later version with more fields", () => {
    expect(readTraceContext(`01-${traceId}-${spanId}-01-more`, undefined)).toEqual({
      traceId,
      spanId,
      isSampled: true,
    });
  });

  it.each([
    ["no header", undefined],
    ["a repeated header", [valid, valid]],
    ["a header joined from two", `${valid}, ${valid}`],
    ["version ff", `ff-${traceId}-${spanId}-01`],
    ["more fields in version 00", `${valid}-more`],
    ["capital letters", valid.toUpperCase()],
    ["a short trace id", `00-${traceId.slice(1)}-${spanId}-01`],
    ["a trace id of zeros", `00-${"0".repeat(32)}-${spanId}-01`],
    ["a span id of zeros", `00-${traceId}-${"0".repeat(16)}-01`],
    ["flags that are not hexadecimal", `00-${traceId}-${spanId}-0g`],
    ["an empty header", ""],
  ])("returns undefined for %s", (_what, header) => {
    expect(readTraceContext(header, undefined)).toBeUndefined();
  });

  it("keeps a valid tracestate without its spaces", () => {
    expect(readTraceContext(valid, "rojo=00f067aa0ba902b7 , tenant@congo=t61rcWkgMzE")?.state).toBe(
      "rojo=00f067aa0ba902b7,tenant@congo=t61rcWkgMzE",
    );
    expect(readTraceContext(valid, ["a=1", "b=2"])?.state).toBe("a=1,b=2");
  });

  it.each([
    ["a member without a value", "rojo"],
    ["a capital letter in a key", "Rojo=1"],
    ["the same key twice", "a=1,a=2"],
    ["33 members", Array.from({ length: 33 }, (_, n) => `k${n}=1`).join(",")],
    ["more than 512 characters", `a=${"x".repeat(256)},b=${"x".repeat(256)}`],
    ["a control character", "a=1\r\nx-evil: 1"],
    ["an empty one", " , "],
  ])("drops a tracestate with %s and keeps the ids", (_what, state) => {
    expect(readTraceContext(valid, state)).toEqual({ traceId, spanId, isSampled: true });
  });
});

describe("traceHeaders", () => {
  it("writes what readTraceContext reads", () => {
    const context = { traceId, spanId, isSampled: true, state: "a=1" };
    const [, parent, , state] = traceHeaders(context);
    expect(readTraceContext(parent, state)).toEqual(context);
    expect(traceHeaders({ traceId, spanId, isSampled: false })).toEqual(["traceparent", `00-${traceId}-${spanId}-00`]);
  });
});

describe("unsampledContext", () => {
  it("is a valid span of a new trace, or of the parent's", () => {
    const own = unsampledContext(undefined);
    expect(readTraceContext(traceparent(own), undefined)).toEqual(own);
    const child = unsampledContext({ traceId, spanId, isSampled: true, state: "a=1" });
    expect(child).toMatchObject({ traceId, isSampled: false, state: "a=1" });
    expect(child.spanId).not.toBe(spanId);
  });

  it("gives no id twice", () => {
    const ids = Array.from({ length: 2000 }, () => unsampledContext(undefined).traceId);
    expect(new Set(ids).size).toBe(ids.length);
  });
});

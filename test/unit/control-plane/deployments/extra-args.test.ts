import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ExtraArgRefused } from "../../../../control-plane/deployments/errors.ts";
import { checkExtraArgs, contextLengthOf } from "../../../../control-plane/deployments/extra-args.ts";

const forbidden = [
  "trust-remote-code",
  "config",
  "middleware",
  "tool-parser-plugin",
  "reasoning-parser-plugin",
  "logits-processors",
  "worker-cls",
  "load-format",
  "download-dir",
  "chat-template",
  "allowed-local-media-path",
  "otlp-traces-endpoint",
  "ssl-keyfile",
  "kv-transfer-config",
  "speculative-config",
  "hf-token",
  "tool-server",
  "model",
  "served-model-name",
  "host",
  "port",
  "uds",
  "tensor-parallel-size",
  "max-num-seqs",
  "api-key",
  "lora-modules",
  "shutdown-timeout",
  "root-path",
];

describe("extra_args", () => {
  it.each([
    ["--max-model-len=4096"],
    ["--dtype=bfloat16"],
    ["--enable-prefix-caching"],
    ["--gpu-memory-utilization=0.85"],
    ['--rope-scaling={"rope_type":"yarn","factor":4}'],
  ])("lets %s through unchanged", (arg) => {
    expect(checkExtraArgs([arg])).toEqual([arg]);
  });

  it.each([
    ["--max-model-len"],
    ["--max-model-len=12"],
    ["--max-model-len=4096 --config=/etc/x"],
    ["--max-model-len=1e6"],
    ["--dtype=evil"],
    ["--enable-prefix-caching=1"],
    ["--gpu-memory-utilization=0.99"],
    ['--rope-scaling={"path":"/etc/passwd"}'],
    ["--max_model_len=4096"],
    ["-tp=2"],
    ["max-model-len=4096"],
    ["--constructor=1"],
    ["--dtype=auto\n--config=x"],
  ])("refuses %s", (arg) => {
    expect(() => checkExtraArgs([arg])).toThrow(ExtraArgRefused);
  });

  it("lets no spelling of a forbidden argument through", () => {
    const spelling = fc.constantFrom(...forbidden).chain((name) =>
      fc.record({
        name: fc.constantFrom(
          name,
          name.replaceAll("-", "_"),
          name.toUpperCase(),
          name.slice(0, 5),
          `${name}.x`,
          `no-${name}`,
        ),
        dashes: fc.constantFrom("--", "-", "", "---"),
        value: fc.option(fc.string({ maxLength: 20 }), { nil: undefined }),
        glue: fc.constantFrom("=", " ", ":", "=="),
      }),
    );
    fc.assert(
      fc.property(spelling, ({ name, dashes, value, glue }) => {
        expect(() => checkExtraArgs([`${dashes}${name}${value === undefined ? "" : glue + value}`])).toThrow(
          ExtraArgRefused,
        );
      }),
      { numRuns: 10_000 },
    );
  });

  it("refuses an argument given twice", () => {
    expect(() => checkExtraArgs(["--dtype=auto", "--dtype=half"])).toThrow(/twice/);
  });

  it("reads the context length it was given", () => {
    expect(contextLengthOf(["--dtype=auto", "--max-model-len=2048"])).toBe(2048);
    expect(contextLengthOf([])).toBe(0);
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  checkExtraArgs,
  checkKeptArgs,
  contextLengthOf,
  joinArgs,
} from "../../../../control-plane/deployments/extra-args.ts";
import { longer } from "../../../fakes/nightly.ts";

const vllm = { engine: "vllm", format: "safetensors" } as const;
const stoker = { engine: "stoker", format: undefined } as const;
const graphs = { engine: "stoker", format: "onnx" } as const;

describe("the two-element form of extra_args", () => {
  it("is the same argument as --name=value", () => {
    expect(
      joinArgs(["--max-model-len", "2048", "--enable-prefix-caching", "--dtype=half", "--kv-cache-dtype", "fp8"]),
    ).toEqual(["--max-model-len=2048", "--enable-prefix-caching", "--dtype=half", "--kv-cache-dtype=fp8"]);
    expect(contextLengthOf(joinArgs(["--max-model-len", "2048"]))).toBe(2048);
  });

  it.each([
    ["a value after a flag", ["--enable-prefix-caching", "yes"], /takes no value/],
    ["a value without a name", ["2048"], /not of the form/],
    ["a second value", ["--max-model-len", "2048", "4096"], /not of the form/],
    ["a forbidden name", ["--host", "0.0.0.0"], /no argument/],
  ])("refuses %s", (_, args, why) => {
    expect(() => checkExtraArgs(joinArgs(args), vllm)).toThrow(why);
  });
});

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
    expect(checkExtraArgs([arg], vllm)).toEqual([arg]);
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
    expect(() => checkExtraArgs([arg], vllm)).toThrow(expect.objectContaining({ code: "extra_arg_refused" }));
  });

  it("refuses every spelling of a forbidden argument", () => {
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
        const arg = `${dashes}${name}${value === undefined ? "" : glue + value}`;
        for (const reader of [vllm, stoker, graphs])
          expect(() => checkExtraArgs([arg], reader)).toThrow(expect.objectContaining({ code: "extra_arg_refused" }));
        expect(() => checkKeptArgs([arg], stoker)).toThrow(expect.objectContaining({ code: "extra_arg_refused" }));
      }),
      { numRuns: longer(2_000, 10_000) },
    );
  });

  it("refuses an argument given twice", () => {
    expect(() => checkExtraArgs(["--dtype=auto", "--dtype=half"], vllm)).toThrow(/twice/);
  });

  it.each([
    ["--dtype=bfloat16", /"--dtype=bfloat16" has no effect on the engine stoker: .*name a file.*Leave it out/],
    ["--quantization=awq", /has no effect on the engine stoker: .*choose a GGUF file/],
    ["--gpu-memory-utilization=0.85", /has no effect on the engine stoker: .*--max-model-len and max_batch_size/],
    ["--max-num-batched-tokens=4096", /has no effect on the engine stoker/],
    ["--no-enable-prefix-caching", /has no effect on the engine stoker: .*--prompt-cache-mib=0/],
    ['--limit-mm-per-prompt={"image":2}', /has no effect on the engine stoker/],
    ['--rope-scaling={"rope_type":"yarn","factor":4}', /has no effect on the engine stoker/],
  ])("of vLLM that our runtime would not heed is refused by name: %s", (arg, sentence) => {
    expect(checkExtraArgs([arg], vllm)).toEqual([arg]);
    expect(() => checkExtraArgs([arg], stoker)).toThrow(sentence);
    // What was deployed with it before goes on.
    expect(checkKeptArgs([arg], stoker)).toEqual([arg]);
  });

  it.each([
    [["--flash-attn=off", "--kv-cache-dtype=q8_0"], /requires flash attention on the engine stoker/],
    [["--speculative=prompt-lookup", "--draft-model=owner/small"], /cannot be combined .* Remove one/],
  ])("with which our runtime would not start are refused together: %s", (args, sentence) => {
    expect(() => checkExtraArgs(args, stoker)).toThrow(sentence);
    expect(() => checkKeptArgs(args, stoker)).toThrow(sentence);
    for (const arg of args) expect(checkExtraArgs([arg], stoker)).toEqual([arg]);
  });

  it("names the engine and the arguments it accepts", () => {
    expect(() => checkExtraArgs(["--disable-radix-cache"], stoker)).toThrow(
      /"--disable-radix-cache" is no argument that the engine stoker takes. It takes --max-model-len, /,
    );
    expect(() => checkExtraArgs(["--kv-cache-dtype=q8_0"], vllm)).toThrow(
      /its value is one of auto, fp8.* on the engine vllm/,
    );
    expect(() => checkExtraArgs(["--dtype=auto"], { engine: "custom" })).toThrow(/engine custom takes. It takes none/);
  });

  it("accepts none for ONNX graphs, whose files determine every setting", () => {
    expect(() => checkExtraArgs(["--max-model-len=4096"], graphs)).toThrow(/the engine stoker with ONNX weights takes/);
    expect(checkExtraArgs(["--no-enable-lora"], graphs)).toEqual(["--no-enable-lora"]);
  });

  it("reads the context length it was given", () => {
    expect(contextLengthOf(["--dtype=auto", "--max-model-len=2048"])).toBe(2048);
    expect(contextLengthOf([])).toBe(0);
  });
});

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasModel, modelFile, type RuntimeProcess, startRuntime } from "./runtime-process.ts";

const model = "HuggingFaceTB/SmolLM2-135M-Instruct";
const list = "one apple, two pears, three plums, four figs, five dates, six limes";
const prompts = [
  // Whoever has read a sentence eight times writes it once more, on every processor.
  "The ships came in at noon with salt and timber. ".repeat(8).trim(),
  "Once upon a time there was a",
  "def add(a, b):",
];
const tokens = 32;

describe.runIf(hasModel("options of the model server"))("the model server's options", () => {
  let plain: RuntimeProcess;
  let guessing: RuntimeProcess;
  let drafted: RuntimeProcess;
  beforeAll(async () => {
    const one = { STOKER_MAX_BATCH_SIZE: "1", STOKER_CONTEXT_LENGTH: "512" };
    plain = await startRuntime(one, ["--flash-attn=on", "--kv-cache-dtype=q8_0"]);
    guessing = await startRuntime(one, ["--flash-attn=on", "--kv-cache-dtype=q8_0", "--speculative=prompt-lookup"]);
    // Its own draft: every guess of a sure mind is right.
    const draft = { ...one, STOKER_DRAFT_MODEL_PATH: modelFile };
    drafted = await startRuntime(draft, ["--flash-attn=on", "--kv-cache-dtype=q8_0"]);
  });
  afterAll(async () => {
    await plain?.stop();
    await guessing?.stop();
    await drafted?.stop();
  });

  const texts = (runtime: RuntimeProcess) =>
    prompts.map(async (prompt) => {
      const request = { model, prompt, temperature: 0, max_tokens: tokens, ignore_eos: true };
      const { body } = await runtime.post("/v1/completions", request);
      expect(body.usage.completion_tokens).toBe(tokens);
      return body.choices[0].text as string;
    });

  it.each([
    ["from the text so far", () => guessing],
    ["by a draft model", () => drafted],
  ])("gives the same greedy answers when it guesses ahead %s, and says how many guesses were right", async (_, of) => {
    const runtime = of();
    expect(await Promise.all(texts(runtime))).toEqual(await Promise.all(texts(plain)));
    const page = String((await runtime.get("/metrics")).body);
    const count = (result: string) =>
      Number(new RegExp(`stoker_runtime_predicted_tokens_total\\{result="${result}"\\} (\\d+)`).exec(page)?.[1]);
    expect(count("accepted")).toBeGreaterThan(8);
    expect(count("refuted")).toBeGreaterThanOrEqual(0);
    // A cache that held guesses goes on to serve the next prompt, and penalties keep guesses out.
    const again = { model, prompt: prompts[0], temperature: 0, max_tokens: 12, repetition_penalty: 1.3 };
    const [a, b] = await Promise.all([plain, runtime].map((one) => one.post("/v1/completions", again)));
    expect(b?.body.choices[0].text).toBe(a?.body.choices[0].text);
  });

  it("serves the next tenant as without a draft, and reuses nothing of the previous tenant", async () => {
    const [prompt] = prompts;
    const request = { model, prompt, temperature: 0, max_tokens: 8 };
    const ask = (runtime: RuntimeProcess, tenant: string) =>
      runtime.post("/v1/completions", request, { "x-stoker-tenant": tenant });
    const cachedOf = ({ body }: Awaited<ReturnType<typeof ask>>) => body.usage.prompt_tokens_details.cached_tokens;
    await ask(drafted, "first");
    const [next, bare] = [await ask(drafted, "second"), await ask(plain, "second")];
    expect(next.body.choices[0].text).toBe(bare.body.choices[0].text);
    expect(cachedOf(next)).toBe(0);
    expect(cachedOf(await ask(drafted, "second"))).toBeGreaterThan(20);
  });

  it("finds a prompt again by its key after another request took its place", async () => {
    const long = `${"The ships came in at noon with salt and timber. ".repeat(9)}So`;
    const ask = (prompt: string, key?: string) =>
      plain.post("/v1/completions", { model, prompt, temperature: 0, max_tokens: 4, prompt_cache_key: key });
    const first = await ask(long, "story");
    await ask(`Something else. ${list}`);
    const again = await ask(long, "story");
    const { prompt_tokens, prompt_tokens_details } = again.body.usage;
    expect(prompt_tokens_details.cached_tokens).toBe(prompt_tokens - 1);
    expect(again.body.choices[0].text).toBe(first.body.choices[0].text);
  });

  it("applies flash attention and the type of the cache, as llama.cpp's own log shows", () => {
    expect(plain.log()).toMatch(/flash_attn\s*=\s*(1|enabled)/);
    expect(plain.log()).toMatch(/K \(q8_0\).*V \(q8_0\)/);
  });

  it("takes control tokens in a user's words as words", async () => {
    const countOf = async (content: string) => {
      const request = { model, max_tokens: 1, messages: [{ role: "user", content }] };
      return (await plain.post("/v1/chat/completions", request)).body.usage.prompt_tokens as number;
    };
    const [none, control] = [await countOf("ab"), await countOf("a<|im_end|>b")];
    // As one token it would add no more than two.
    expect(control - none).toBeGreaterThan(3);
  });
});

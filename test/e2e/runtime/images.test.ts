// Pictures by a real diffusion pipeline, judged by a real classifier and against what PyTorch made of the same noise.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import sharp from "sharp";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type ServedModel, serveModel } from "../../fakes/served-model.ts";
import { referenceOf, sharedModel } from "../../fakes/shared-models.ts";

const diffusion = sharedModel("digits-diffusion", "pictures painted by a real diffusion pipeline");
const classifier = sharedModel("digits-classifier", "that painted digits are recognised");
/** All of the reference's. */
const prompts = 100;
const side = 64;

let painter: ServedModel;
let judge: ServedModel;

const paint = (body: object) =>
  painter.post("/v1/images/generations", { prompt: "digit 3", guidance_scale: 4, seed: 42, ...body });
const send = async (path: string, parts: Record<string, string | Buffer>) => {
  const form = new FormData();
  for (const [name, value] of Object.entries(parts))
    if (typeof value === "string") form.append(name, value);
    else form.append(name, new Blob([new Uint8Array(value)]), `${name}.png`);
  const answer = await fetch(painter.origin + path, { method: "POST", body: form });
  return { status: answer.status, body: await answer.json() };
};
const seen = async (picture: string): Promise<string> =>
  (await judge.post("/v1/infer", { image: picture })).body.results[0].label;
const pixels = async (bytes: Buffer) => new Uint8Array(await sharp(bytes).removeAlpha().raw().toBuffer());
/** Opaque but for the columns from `from` on. */
const maskOf = (from: number) => {
  const data = Buffer.alloc(side * side * 4, 255);
  for (let at = 0; at < side * side; at++) if (at % side >= from) data[at * 4 + 3] = 0;
  return sharp(data, { raw: { width: side, height: side, channels: 4 } })
    .png()
    .toBuffer();
};

describe.runIf(diffusion && classifier)("a diffusion pipeline", () => {
  const reference = diffusion ? referenceOf(diffusion) : {};
  beforeAll(async () => {
    painter = await serveModel(diffusion as string);
    judge = await serveModel(classifier as string);
  }, 60_000);
  afterAll(async () => {
    await painter?.close();
    await judge?.close();
  });

  it("paints for a seed what PyTorch paints for it", async () => {
    for (const run of reference.runs.filter((one: { scheduler: string }) => one.scheduler === "DDIM")) {
      const { body } = await paint({ prompt: run.prompt, num_inference_steps: run.steps });
      const found = await pixels(Buffer.from(body.data[0].b64_json, "base64"));
      for (const [block, mean] of run.image_8x8_block_means.entries()) {
        let sum = 0;
        for (let y = 0; y < 8; y++)
          for (let x = 0; x < 8; x++)
            for (let c = 0; c < 3; c++)
              sum += found[((Math.floor(block / 8) * 8 + y) * side + (block % 8) * 8 + x) * 3 + c] as number;
        expect(Math.abs(sum / 192 / 255 - mean), `${run.prompt}, block ${block}`).toBeLessThan(0.004);
      }
    }
  });

  it("paints digits that are recognised, also many at once", async () => {
    const all: string[] = reference.prompts_of_grid;
    // Ten to a digit, each in other words: the first ten are one of each, and a hundred are all of them.
    const chosen = Array.from({ length: prompts }, (_, i) => (i * 11) % all.length);
    const labels = await Promise.all(
      chosen.map(async (at) => {
        const { body } = await paint({ prompt: all[at] as string, seed: at });
        return seen(body.data[0].b64_json);
      }),
    );
    const right = labels.filter((label, i) => label === String(Math.floor((chosen[i] as number) / 10)));
    process.stdout.write(`digits recognised: ${right.length} of ${prompts}\n`);
    expect(right.length).toBeGreaterThanOrEqual(Math.floor(prompts * 0.95));
  }, 300_000);

  it("returns pictures with their own seeds, each the same when it is painted alone", async () => {
    const together = await paint({ n: 2, seed: 7, num_inference_steps: 8 });
    const [first, second] = together.body.data.map((one: { b64_json: string }) => one.b64_json);
    expect(first).not.toBe(second);
    expect(together.body).toMatchObject({ seed: 7, usage: { images: 2, image_pixel_steps: 2 * 8 * side * side } });
    const alone = await paint({ seed: 8, num_inference_steps: 8 });
    const [a, b] = await Promise.all(
      [second, alone.body.data[0].b64_json].map((one) => pixels(Buffer.from(one, "base64"))),
    );
    // Sums in batches differ in their last bits.
    for (const [at, value] of (a as Uint8Array).entries())
      expect(Math.abs(value - (b?.[at] as number))).toBeLessThan(3);
    const format = await paint({ output_format: "webp", num_inference_steps: 2 });
    expect((await sharp(Buffer.from(format.body.data[0].b64_json, "base64")).metadata()).format).toBe("webp");
    expect((await paint({ seed: undefined, num_inference_steps: 2 })).body.seed).toBeGreaterThanOrEqual(0);
  });

  it("avoids what the negative prompt names", async () => {
    const body = { prompt: "", negative_prompt: "digit 3", seed: 3, num_inference_steps: 8 };
    const [plain, led] = [await paint({ ...body, negative_prompt: "" }), await paint(body)];
    expect(led.body.data[0].b64_json).not.toBe(plain.body.data[0].b64_json);
  });

  it("repaints what the mask leaves open, and leaves the rest unchanged", async () => {
    const given = readFileSync(join(classifier as string, "samples/real-7.png"));
    const form = {
      image: given,
      mask: await maskOf(32),
      prompt: "digit 8",
      size: "64x64",
      guidance_scale: "4",
      seed: "5",
    };
    const { body } = await send("/v1/images/edits", form);
    const [before, after] = [await pixels(given), await pixels(Buffer.from(body.data[0].b64_json, "base64"))];
    let changed = 0;
    for (const [at, value] of after.entries()) {
      if (Math.floor(at / 3) % side < 32) expect(value).toBe(before[at]);
      else changed += Math.abs(value - (before[at] as number)) > 20 ? 1 : 0;
    }
    expect(changed).toBeGreaterThan(100);
    expect(body.usage).toMatchObject({ images: 1, image_pixel_steps: 20 * side * side });
  });

  it("varies a picture: another one of the same digit", async () => {
    for (const digit of [3, 7]) {
      const image = readFileSync(join(classifier as string, `samples/real-${digit}.png`));
      const { body } = await send("/v1/images/variations", { image, size: "64x64", seed: "1" });
      expect(await seen(body.data[0].b64_json)).toBe(String(digit));
      const [before, after] = [await pixels(image), await pixels(Buffer.from(body.data[0].b64_json, "base64"))];
      expect(after.some((value, at) => Math.abs(value - (before[at] as number)) > 40)).toBe(true);
    }
  });

  it("takes a picture beside the prompt, and runs the share of steps that its strength names", async () => {
    const image = readFileSync(join(classifier as string, "samples/real-0.png")).toString("base64");
    const { body } = await paint({ prompt: "digit 0", image, strength: 0.25 });
    expect(await seen(body.data[0].b64_json)).toBe("0");
    expect(body.usage.image_pixel_steps).toBe(5 * side * side);
  });

  it.each([
    [
      { size: "1024x1024" },
      400,
      /no pictures of 1024x1024; it makes 64x64 best, and sides from 32 to 128 in steps of 16/,
    ],
    [{ size: "72x64" }, 400, /steps of 16/],
    [{ size: "big" }, 422, /WIDTHxHEIGHT/],
    [{ n: 5 }, 422, /at most 4/],
    [{ num_inference_steps: 900 }, 400, /at most 500 steps/],
    [{ strength: 0, image: "x" }, 422, /above 0/],
    [{ response_format: "url" }, 422, /b64_json/],
    [{ prompt: `${"1".repeat(99)}` }, 400, /has \d+ tokens and this model takes 77/],
    [{ image: "aGVsbG8=" }, 400, /no PNG, JPEG/],
    [{ mask: "aGVsbG8=" }, 422, /send that as well/],
  ])("refuses %j and says why", async (change, status, why) => {
    const answer = await paint(change);
    expect([answer.status, answer.body.error?.message]).toEqual([status, expect.stringMatching(why)]);
  });

  it("refuses a mask that hides nothing, of another size, or of a variation", async () => {
    const image = readFileSync(join(classifier as string, "samples/real-7.png"));
    const small = await sharp(await maskOf(32))
      .resize(32, 32)
      .png()
      .toBuffer();
    for (const [path, mask, why] of [
      ["/v1/images/edits", await maskOf(64), /nothing of the mask is transparent/],
      ["/v1/images/edits", small, /both must have one size/],
      ["/v1/images/variations", small, /takes no mask/],
    ] as const) {
      const { status, body } = await send(path, { image, mask, prompt: "digit 8", size: "64x64" });
      expect([status, body.error.message]).toEqual([400, expect.stringMatching(why)]);
    }
  });

  it("stops between two steps when the client is gone, and has counted what was begun", async () => {
    const leaves = new AbortController();
    const body = JSON.stringify({ prompt: "digit 1", num_inference_steps: 500, n: 4 });
    const headers = { "x-stoker-request-id": "gone" };
    const asked = fetch(`${painter.origin}/v1/images/generations`, {
      method: "POST",
      body,
      headers,
      signal: leaves.signal,
    });
    const usage = async () => (await fetch(`${painter.origin}/usage/gone`)).json() as Promise<Record<string, number>>;
    await vi.waitFor(async () => expect((await usage())["image_pixel_steps"]).toBeGreaterThan(0), { timeout: 30_000 });
    leaves.abort();
    await expect(asked).rejects.toThrow();
    await vi.waitFor(async () => expect(await usage()).toMatchObject({ aborted: true }), { timeout: 30_000 });
    const next = await paint({ num_inference_steps: 2 });
    expect(next.status).toBe(200);
    const counted = await usage();
    expect(counted["images"]).toBeGreaterThan(0);
    expect(counted["image_pixel_steps"]).toBeLessThan(4 * 500 * side * side);
  });
});

import { describe, expect, it } from "vitest";
import { floatsOf, tensorOf } from "../../../../runtime/tasks/images/float-tensor.ts";
import { latentMask } from "../../../../runtime/tasks/images/given-picture.ts";
import { numbersOf, readImageAsk } from "../../../../runtime/tasks/images/request.ts";
import { checkSize } from "../../../../runtime/tasks/images/sizes.ts";

const defaults = { steps: 20, guidance: 7.5, maxSteps: 500 };

describe("a request for pictures", () => {
  it("reads a form as it reads JSON", () => {
    const form = { prompt: "7", n: "2", seed: "5", guidance_scale: "4.5", strength: "0.5", size: "64x32" };
    const json = { prompt: "7", n: 2, seed: 5, guidance_scale: 4.5, strength: 0.5, size: "64x32" };
    const ask = readImageAsk(numbersOf(form), defaults, true);
    expect(ask).toEqual(readImageAsk(json, defaults, true));
    expect(ask).toMatchObject({
      prompt: "7",
      n: 2,
      seed: 5,
      guidance: 4.5,
      size: { width: 64, height: 32 },
      steps: 20,
    });
  });

  it.each([{ n: "two" }, { seed: " " }, { strength: "1.5" }, { num_inference_steps: "0" }])(
    "refuses %j of a form",
    (change) => {
      expect(() => readImageAsk(numbersOf({ prompt: "7", ...change }), defaults, true)).toThrow(Object.keys(change)[0]);
    },
  );

  it.each([
    [7, 7],
    [2 ** 53 - 1, 2 ** 53 - 1],
    [-1, 2 ** 32 - 1],
    [2n ** 53n + 5n, 5],
    [2n ** 64n - 1n, 2 ** 32 - 1],
    [-(2n ** 63n), 0],
  ])("takes the seed %s as text does: of a long one the low 32 bits count", (seed, drawn) => {
    expect(readImageAsk({ prompt: "7", seed }, defaults, true).seed).toBe(drawn);
  });

  it.each([[2n ** 64n], [-(2n ** 63n) - 1n], [1.5], ["7"]])("refuses the seed %s", (seed) => {
    expect(() => readImageAsk({ prompt: "7", seed }, defaults, true)).toThrow("seed must be");
  });

  it("needs a prompt unless it is a variation", () => {
    expect(() => readImageAsk({}, defaults, true)).toThrow("prompt is required");
    expect(readImageAsk({}, defaults, false).prompt).toBe("");
  });
});

describe("sizes", () => {
  const stable = { width: 512, height: 512, step: 64 };
  it.each([
    [512, 512],
    [256, 1024],
    [768, 448],
  ])("accept %dx%d for a model of 512x512", (width, height) => {
    expect(() => checkSize(stable, width, height, "size")).not.toThrow();
  });

  it.each([
    [stable, 192, 512, /256 to 1024 in steps of 64/],
    [stable, 1088, 512, /256 to 1024/],
    [stable, 520, 512, /steps of 64/],
    [{ width: 512, height: 768, step: 0 }, 512, 512, /512x768 alone/],
  ] as const)("refuse from %j the size %dx%d", (sizes, width, height, why) => {
    expect(() => checkSize(sizes, width, height, "size")).toThrow(why);
  });
});

describe("numbers for a graph", () => {
  it("are read back unchanged, whatever the graph's number type", () => {
    const values = Float32Array.of(0, 1, -2.5, 951);
    for (const type of ["float32", "float16", "float64"]) expect(floatsOf(tensorOf(type, values, [4]))).toEqual(values);
    expect(tensorOf("int64", values, [4]).data).toEqual(BigInt64Array.of(0n, 1n, -2n, 951n));
    expect(() => tensorOf("string", values, [4])).toThrow("string");
  });

  it("repaint a latent when any of its pixels is repainted", () => {
    const anew = new Float32Array(16 * 8);
    anew[7 * 16 + 8] = 0.5;
    expect([...latentMask(anew, { width: 16, height: 8 }, 8)]).toEqual([0, 1]);
  });
});

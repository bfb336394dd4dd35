import { describe, expect, it } from "vitest";
import { normalNoise } from "../../../../runtime/tasks/images/normal-noise.ts";
import { readSchedule } from "../../../../runtime/tasks/images/schedule/read-schedule.ts";

/** Stable Diffusion 1's own, but for the class and for an end without noise. */
const config = {
  beta_start: 0.00085,
  beta_end: 0.012,
  beta_schedule: "scaled_linear",
  clip_sample: false,
  set_alpha_to_one: true,
  steps_offset: 1,
  timestep_spacing: "leading",
  skip_prk_steps: true,
};
const schedulers = ["DDIMScheduler", "EulerDiscreteScheduler", "PNDMScheduler", "DPMSolverMultistepScheduler"];
const schedule = (name: string, steps: number, more: object = {}) =>
  readSchedule({ ...config, _class_name: name, ...more })(steps);

describe("noise by a seed", () => {
  it("is what PyTorch's CPU generator draws", () => {
    // torch.manual_seed(seed); torch.randn(256)[:4]
    const drawn = [
      [0, [-1.12584, -1.15236, -0.25058, -0.43388]],
      [42, [1.92692, 1.48728, 0.90072, -2.10552]],
    ] as const;
    for (const [seed, expected] of drawn)
      expected.forEach((value, i) => {
        expect(normalNoise(seed, 256)[i]).toBeCloseTo(value, 4);
      });
  });

  it("is normal, and another one for another seed and for every part of a length", () => {
    const values = normalNoise(1, 100_001);
    const mean = values.reduce((sum, v) => sum + v, 0) / values.length;
    const variance = values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / values.length;
    expect(Math.abs(mean)).toBeLessThan(0.01);
    expect(Math.abs(variance - 1)).toBeLessThan(0.02);
    expect(normalNoise(2, 16)).not.toEqual(normalNoise(1, 16));
    expect(values.every(Number.isFinite)).toBe(true);
  });
});

describe("the steps of a scheduler", () => {
  it.each([
    ["DDIMScheduler", {}, [801, 601, 401, 201, 1]],
    ["DDIMScheduler", { timestep_spacing: "trailing" }, [999, 799, 599, 399, 199]],
    ["DDIMScheduler", { timestep_spacing: "linspace" }, [999, 749, 500, 250, 0]],
    ["PNDMScheduler", {}, [801, 601, 601, 401, 201, 1]],
    ["DPMSolverMultistepScheduler", {}, [831, 665, 499, 333, 167]],
  ])("equal the reference implementation's for %s with %j", (name, more, expected) => {
    expect(schedule(name, 5, more).timesteps).toEqual(expected);
  });

  it.each(schedulers)("lead from noise to the picture that the model predicts: %s", (name) => {
    const picture = normalNoise(3, 64).map((value) => value * 0.7);
    const noise = normalNoise(4, 64);
    const made = schedule(name, 12);
    const stepper = made.stepper();
    let sample = made.noised(picture, noise, 0);
    for (let i = 0; i < made.timesteps.length; i++) sample = stepper.step(noise, i, sample);
    for (const [at, value] of sample.entries()) expect(value).toBeCloseTo(picture[at] as number, 3);
    expect(made.noised(picture, noise, made.timesteps.length)).toEqual(picture);
  });

  it.each(["DDIMScheduler", "EulerDiscreteScheduler", "DPMSolverMultistepScheduler"])(
    "give the same picture whether the model predicts noise or velocity: %s",
    (name) => {
      const [picture, noise] = [normalNoise(5, 16), normalNoise(6, 16)];
      const made = schedule(name, 8, { prediction_type: "v_prediction" });
      const alphas = alphasOf();
      const stepper = made.stepper();
      let sample = made.noised(picture, noise, 0);
      for (const [i, step] of made.timesteps.entries()) {
        const share = alphas[Math.round(step)] as number;
        const velocity = noise.map((n, at) => Math.sqrt(share) * n - Math.sqrt(1 - share) * (picture[at] as number));
        sample = stepper.step(velocity, i, sample);
      }
      for (const [at, value] of sample.entries()) expect(value).toBeCloseTo(picture[at] as number, 3);
    },
  );

  it.each([
    [{ _class_name: "LCMScheduler" }, /knows DDIMScheduler, EulerDiscreteScheduler/],
    [{ _class_name: "DDIMScheduler", thresholding: true }, /thresholding true/],
    [{ _class_name: "PNDMScheduler", skip_prk_steps: false }, /skip_prk_steps false/],
    [{ _class_name: "DDIMScheduler", prediction_type: "flow" }, /prediction_type "flow"/],
    [{ _class_name: "EulerDiscreteScheduler", beta_schedule: "sigmoid" }, /beta_schedule "sigmoid"/],
  ])("are refused for %j, because they would make other pictures", (more, why) => {
    expect(() => readSchedule({ ...config, ...more })).toThrow(why);
  });
});

function alphasOf(): number[] {
  let product = 1;
  return Array.from({ length: 1000 }, (_, i) => {
    product *= 1 - (Math.sqrt(0.00085) + ((Math.sqrt(0.012) - Math.sqrt(0.00085)) * i) / 999) ** 2;
    return product;
  });
}

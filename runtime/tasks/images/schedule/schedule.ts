// Steps from noise to a picture: the port of the denoising loop onto the equations of one scheduler.

/** One picture's (or batch's) latents, row by row. */
export type Latents = Float32Array;

/** The steps of one request, from much noise to little. Pure: all state is in the steppers. */
export interface Schedule {
  /** Time step given to the model at each evaluation. */
  readonly timesteps: readonly number[];
  /** Factor of pure noise before the first step. */
  readonly initialScale: number;
  /** Returns the model's input at evaluation `i`. */
  scaled(sample: Latents, i: number): Latents;
  /** A clean picture as it would be before evaluation `i`; after the last one as it is. */
  noised(clean: Latents, noise: Latents, i: number): Latents;
  /** Steps of one picture; they keep earlier outputs of the model. */
  stepper(): Stepper;
}

export interface Stepper {
  /** The sample after evaluation `i`, from the model's output for it. */
  step(output: Latents, i: number, sample: Latents): Latents;
}

/** a·x + b·y */
export function mixed(a: number, x: Latents, b: number, y: Latents): Latents {
  const out = new Float32Array(x.length);
  for (let i = 0; i < x.length; i++) out[i] = a * (x[i] as number) + b * (y[i] as number);
  return out;
}

/** The picture in a sample of `picture` parts picture and `noise` parts noise, by the model's output for it. */
export function pictureOf(
  prediction: "epsilon" | "v_prediction" | "sample",
  output: Latents,
  sample: Latents,
  { picture, noise }: { readonly picture: number; readonly noise: number },
): Latents {
  switch (prediction) {
    case "epsilon":
      return mixed(1 / picture, sample, -noise / picture, output);
    case "v_prediction":
      return mixed(picture, sample, -noise, output);
    case "sample":
      return output;
    default:
      return prediction satisfies never;
  }
}

export function times(factor: number, x: Latents): Latents {
  return factor === 1 ? x : x.map((value) => value * factor);
}

// The scheduler that a pipeline's scheduler_config.json names.
import { LoadFailure } from "../../../llama/load-failure.ts";
import type { Json } from "../../../onnx/model-folder.ts";
import { ddim } from "./ddim.ts";
import { dpmSolver } from "./dpm-solver.ts";
import { euler } from "./euler.ts";
import { readNoiseLevels } from "./noise-levels.ts";
import { pndm } from "./pndm.ts";
import type { Schedule } from "./schedule.ts";

/** Steps of a request -> how they are run. */
export type MakeSchedule = (steps: number) => Schedule;

const readers: Readonly<Record<string, (config: Json) => MakeSchedule>> = {
  DDIMScheduler(config) {
    const levels = readNoiseLevels(config, { spacing: "leading", endsWhole: true });
    const range = typeof config["clip_sample_range"] === "number" ? config["clip_sample_range"] : 1;
    const clip = config["clip_sample"] === false ? undefined : range;
    return (steps) => ddim(levels, steps, clip);
  },
  EulerDiscreteScheduler(config) {
    refuse(config, "interpolation_type", ["linear"]);
    refuse(config, "final_sigmas_type", ["zero"]);
    const levels = readNoiseLevels(config, { spacing: "linspace", endsWhole: true });
    return (steps) => euler(levels, steps);
  },
  PNDMScheduler(config) {
    refuse(config, "skip_prk_steps", [true], false);
    refuse(config, "prediction_type", ["epsilon", "v_prediction"]);
    const levels = readNoiseLevels(config, { spacing: "leading", endsWhole: false });
    return (steps) => pndm(levels, steps);
  },
  DPMSolverMultistepScheduler(config) {
    refuse(config, "algorithm_type", ["dpmsolver++"]);
    refuse(config, "solver_type", ["midpoint"]);
    refuse(config, "solver_order", [1, 2]);
    refuse(config, "final_sigmas_type", ["zero", "sigma_min"]);
    refuse(config, "euler_at_final", [false]);
    refuse(config, "use_lu_lambdas", [false]);
    const levels = readNoiseLevels(config, { spacing: "linspace", endsWhole: true });
    const settings = {
      order: config["solver_order"] === 1 ? 1 : 2,
      endsClean: config["final_sigmas_type"] !== "sigma_min",
      endsSimply: config["lower_order_final"] !== false,
    } as const;
    return (steps) => dpmSolver(levels, steps, settings);
  },
};

/** Throws LoadFailure. */
export function readSchedule(config: Json): MakeSchedule {
  const name = config["_class_name"];
  const read = typeof name === "string" && Object.hasOwn(readers, name) ? readers[name] : undefined;
  if (read) return read(config);
  throw new LoadFailure(
    "unsupported scheduler",
    `scheduler/scheduler_config.json names ${JSON.stringify(name)}; this model server knows ${Object.keys(readers).join(", ")}; save the pipeline with one of them`,
  );
}

/** A setting of another value than the known ones would silently make other pictures. */
function refuse(config: Json, name: string, known: readonly unknown[], fallback: unknown = known[0]): void {
  const value = config[name] ?? fallback;
  if (known.includes(value)) return;
  throw new LoadFailure(
    "unsupported scheduler",
    `scheduler_config.json has ${name} ${JSON.stringify(value)}; this model server knows ${known.map((one) => JSON.stringify(one)).join(", ")}`,
  );
}

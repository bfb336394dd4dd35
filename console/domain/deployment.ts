// GPUs, price, progress and pending reasons of a deployment.
import type { Responses } from "../../proto/gen/responses.ts";
import { text } from "../text/deployments.ts";
import { bytes } from "../ui/format.ts";

export type Deployment = Responses["GET /deploy/{deploy_id}"];

export type Offer = Responses["GET /deploy/llm/gpu_availability"]["gpus"][number];

/** Average length of a month in hours. */
export const hoursPerMonth = 730;

export const activeStatuses = ["initializing", "downloading", "deploying", "deployed", "updating", "stopping"];

/** It runs nothing and costs nothing. */
export const isEnded = (status: string): boolean => ["stopped", "failed", "deleted"].includes(status);

/** Still on its way to its first or next running instance. */
export const isStarting = (status: string): boolean =>
  ["initializing", "downloading", "deploying", "updating"].includes(status);

const maxDevices = 2;

/** `2 × H100-80GB`. `offers` say what a GPU of type `other` is. */
export function gpusOf(count: number, type: string, offers: readonly Pick<Offer, "devices">[]): string {
  const devices = [...new Set(offers.flatMap((one) => one.devices))];
  const shown = devices.length > maxDevices ? [...devices.slice(0, maxDevices), text.otherGpus] : devices;
  return `${count} × ${type === "other" ? shown.join(" or ") || text.otherGpu : type}`;
}

export function gpusText({ config }: Pick<Deployment, "config">, offers: readonly Pick<Offer, "devices">[]): string {
  return config && config.num_gpus > 0 ? gpusOf(config.num_gpus, config.gpu, offers) : text.noGpus;
}

/** `2 of 3 running`. */
export function instancesText({ instances: { running, pending } }: Pick<Deployment, "instances">): string {
  return text.running(running, running + pending);
}

/** Empty once deployed and awake. */
export function progressText({ progress, status }: Pick<Deployment, "progress" | "status">): string {
  if (progress?.phase === "asleep" || progress?.phase === "waking") return progress.phase;
  if (!progress || status === "deployed" || isEnded(status)) return "";
  const { phase, done_bytes: done, total_bytes: total } = progress;
  if (phase === "ready") return "";
  return total > 0 ? text.progress(phase, bytes(done), bytes(total)) : phase;
}

/** The most important reason for what is wrong; empty if nothing is. */
export function reasonOf(one: Deployment): string {
  const [pending] = one.pending_reasons;
  return (
    one.fail_reason ||
    (pending ? (pending.host ? `${pending.host}: ${pending.why}` : pending.why) : "") ||
    one.progress?.trouble ||
    (one.update_error ? text.rolledBack(one.update_error) : "")
  );
}

/** Splits `2xH100-80GB`. */
export function partsOf(gpuConfig: string): { readonly count: number; readonly gpu: string } {
  const [count = "1", gpu = ""] = gpuConfig.split(/x(.*)/s);
  return { count: Number(count), gpu };
}

/** USD per hour of one instance. Undefined: the type has no price, or no host has it now. */
export function instanceRate({ config }: Pick<Deployment, "config">, offers: readonly Offer[]): number | undefined {
  if (!config || config.num_gpus === 0) return undefined;
  const offer = offers.find(({ gpu_config: name }) => partsOf(name).gpu === config.gpu);
  if (!offer) return undefined;
  return (offer.usd_per_hour / partsOf(offer.gpu_config).count) * config.num_gpus;
}

/** USD per hour of the instances that run now. Undefined: without a price. */
export function currentRate(
  one: Pick<Deployment, "config" | "instances">,
  offers: readonly Offer[],
): number | undefined {
  const rate = instanceRate(one, offers);
  return rate === undefined ? undefined : rate * one.instances.running;
}

import { readFileSync } from "node:fs";
import type Docker from "dockerode";

/** Returns true if the engine can limit the writable layer of a container; depends on its storage driver and mount options. */
export async function canLimitDisk(docker: Docker, abortSignal: AbortSignal): Promise<boolean> {
  const info = (await (docker as unknown as { info(options: object): Promise<object> }).info({ abortSignal })) as {
    Driver?: string;
    DockerRootDir?: string;
  };
  if (info.Driver === "btrfs" || info.Driver === "zfs") return true;
  return info.Driver === "overlay2" && hasProjectQuota(info.DockerRootDir ?? "", readMounts());
}

/** `mounts` as in /proc/self/mounts: the longest mount point above the folder must be xfs with project quotas. */
export function hasProjectQuota(folder: string, mounts: string): boolean {
  const above = mounts
    .split("\n")
    .map((line) => line.split(" "))
    .filter(([, point = "-"]) => folder === point || folder.startsWith(point.endsWith("/") ? point : `${point}/`))
    .sort(([, a = ""], [, b = ""]) => b.length - a.length)[0];
  const [, , type = "", options = ""] = above ?? [];
  return type === "xfs" && options.split(",").some((one) => one === "prjquota" || one === "pquota");
}

function readMounts(): string {
  try {
    return readFileSync("/proc/self/mounts", "utf8");
  } catch {
    return "";
  }
}

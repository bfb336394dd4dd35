import type { Responses } from "../../proto/gen/responses.ts";

export type Container = Responses["GET /v1/containers/{container_id}"];

export type Agent = Responses["GET /v1/agent/{instance_id}"];

export type AgentCatalog = Responses["GET /v1/agent/catalog"];

/** Empty until it can be reached. */
export const loginOf = ({ ip, ssh_port: port }: Pick<Container, "ip" | "ssh_port">): string =>
  ip && port ? `ssh -p ${port} ubuntu@${ip}` : "";

/** USD at the current price since it started. Billing counts minutes, so the bill may differ by cents. */
export function spentOn(
  { start_ts: start, stop_ts: stop, price_per_hour: rate, state }: Container,
  nowMs: number,
): number {
  if (state === "creating" || state === "starting") return 0;
  return (Math.max(0, (stop ?? nowMs / 1000) - start) / 3600) * rate;
}

export type KeyFault = "private" | "not_public";

/** Error in a public SSH key, found before it is sent. */
export function keyFaultOf(key: string): KeyFault | undefined {
  if (/PRIVATE KEY/.test(key)) return "private";
  return /^(ssh-(ed25519|rsa)|ecdsa-|sk-)\S*\s+\S+/.test(key.trim()) ? undefined : "not_public";
}

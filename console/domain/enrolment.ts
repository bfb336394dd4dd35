// Join tokens, enrolled hosts, and the line that joins a host.
import type { Enrolment } from "./host.ts";
import { inShell } from "./literals.ts";

type Token = Pick<Enrolment["tokens"][number], "used_at" | "expires_at">;
type Host = Pick<Enrolment["nodes"][number], "name" | "certificate_expires_at" | "revoked_at">;

export function tokenStatus({ used_at: used, expires_at: end }: Token, nowMs: number): "used" | "expired" | "open" {
  if (used !== null) return "used";
  return Date.parse(end) <= nowMs ? "expired" : "open";
}

/** `pending`: it has a certificate, but no session yet. */
export function hostStatus(host: Host, nowMs: number): "revoked" | "expired" | "pending" | "active" {
  if (host.revoked_at !== null) return "revoked";
  if (Date.parse(host.certificate_expires_at) <= nowMs) return "expired";
  return host.name === null ? "pending" : "active";
}

/** HOST:PORT for agents. A control plane that listens on all addresses is known by the one under which it is visited. */
export function controlAddress({ host, port }: Enrolment["agent_address"], visited: string): string {
  const isAny = host === "0.0.0.0" || host === "::";
  const name = isAny ? visited : host;
  return `${name.includes(":") && !name.startsWith("[") ? `[${name}]` : name}:${port}`;
}

const word = (value: string): string => (/^[\w.,:/@[\]-]+$/.test(value) ? value : inShell(value));

export function joinCommand(token: string, control: string, advertise: string): string {
  const address = advertise.trim() === "" ? "" : ` --advertise ${word(advertise.trim())}`;
  return `stoker node join ${token} --control ${word(control.trim())}${address}`;
}

// Checks of the way to the control plane: network, clock, certificate, version, key.
import { connect } from "node:tls";
import type { Responses } from "../../proto/gen/responses.ts";
import { connectionFailure, openApi } from "../api.ts";
import { CliError, exitCode } from "../cli-error.ts";
import type { Connection } from "../connection.ts";
import { isOlder } from "../versions.ts";
import { type Finding, failure, ok, warning } from "./finding.ts";

const limitMs = 10_000;
const dayMs = 86_400_000;
/** Remaining days at which a public certificate is reported. ACME renews it 30 days before the end. */
const renewalDays = 14;
/** The header Date counts whole seconds. */
const maxSkewMs = 3_000;
/** From here on tokens and certificates are taken for expired or not yet valid. */
const harmfulSkewMs = 60_000;

export async function checkServer(connection: Connection, version: string): Promise<readonly Finding[]> {
  const hosts = [connection.host, ...(connection.others ?? [])];
  const found = await Promise.all(hosts.map(checkHost));
  const isReachable = found.some(([network]) => network?.state !== "failure");
  return [
    ...found.flat(),
    ...(isReachable ? [await checkVersion(connection, version), await checkKey(connection)] : []),
  ];
}

/** The first finding is that of the network. */
async function checkHost(host: string): Promise<readonly Finding[]> {
  const certificate = host.startsWith("https:") ? await checkCertificate(new URL(host)) : [];
  const sentMs = Date.now();
  const startMs = performance.now();
  let response: Response;
  try {
    response = await fetch(`${host}/readyz`, { signal: AbortSignal.timeout(limitMs) });
  } catch (cause) {
    const { problem, fix } = connectionFailure(host, cause, limitMs);
    return [failure("network", problem, fix || "Check the address, the firewall and the server."), ...certificate];
  }
  const tookMs = performance.now() - startMs;
  const body = (await response.json().catch(() => undefined)) as { status?: string; error?: string } | undefined;
  return [networkFinding(host, response.status, tookMs, body), ...clock(response, sentMs, tookMs), ...certificate];
}

function networkFinding(
  host: string,
  status: number,
  tookMs: number,
  body: { readonly status?: string; readonly error?: string } | undefined,
): Finding {
  if (body?.status === undefined)
    return failure("network", `${host} is not a Stoker server (status ${status}).`, "Check --host or STOKER_HOST.");
  if (status === 200) return ok("network", `${host} is ready, ${Math.round(tookMs)} ms`);
  const fix = "Its log names the cause; most often the database or Redis is unreachable.";
  return failure("network", `${host} is ${body.error ?? "not ready"}.`, fix);
}

function clock(response: Response, sentMs: number, tookMs: number): readonly Finding[] {
  const serverMs = Date.parse(response.headers.get("date") ?? "");
  if (Number.isNaN(serverMs)) return [];
  // The header is cut to a second, so the server's time was half a second later on average.
  return [clockFinding(sentMs + tookMs / 2 - (serverMs + 500))];
}

/** `skewMs`: this clock minus the server's. */
export function clockFinding(skewMs: number): Finding {
  const text = `This clock is ${Math.abs(skewMs / 1000).toFixed(1)} s ${skewMs > 0 ? "ahead of" : "behind"} the server's.`;
  const fix = "Synchronise both clocks: timedatectl set-ntp true, or run chrony.";
  if (Math.abs(skewMs) >= harmfulSkewMs) return failure("clock", text, fix);
  if (Math.abs(skewMs) >= maxSkewMs) return warning("clock", text, fix);
  return ok("clock", "within 3 s of the server's");
}

/** Reads the certificate without trusting it: the request itself reports an untrusted one. */
async function checkCertificate({ hostname, port }: URL): Promise<readonly Finding[]> {
  const name = hostname.replace(/^\[|\]$/g, "");
  const end = await new Promise<number | undefined>((resolve) => {
    const socket = connect({
      host: name,
      port: Number(port || 443),
      servername: name,
      rejectUnauthorized: false,
      timeout: limitMs,
    });
    const finish = (value: number | undefined) => {
      socket.destroy();
      resolve(value);
    };
    socket.once("secureConnect", () => finish(Date.parse(socket.getPeerCertificate().valid_to)));
    socket.once("timeout", () => finish(undefined));
    socket.once("error", () => finish(undefined));
  });
  if (end === undefined || Number.isNaN(end)) return [];
  return [certificateFinding(hostname, end - Date.now(), renewalDays, "Renew it on the server.")];
}

/** `leftMs`: until it expires. */
export function certificateFinding(owner: string, leftMs: number, minDays: number, fix: string): Finding {
  const days = leftMs / dayMs;
  if (days <= 0) return failure("certificate", `The certificate of ${owner} has expired.`, fix);
  const text = `The certificate of ${owner} expires in ${days.toFixed(days < 10 ? 1 : 0)} days.`;
  return days < minDays ? warning("certificate", text, fix) : ok("certificate", text);
}

async function checkVersion(connection: Connection, version: string): Promise<Finding> {
  try {
    const api = openApi(connection, { anonymous: true });
    const path = `/cli/version?version=${encodeURIComponent(version)}`;
    const { min, update, latest } = await api.call<Responses["GET /cli/version"]>("GET", path);
    const fix = `Update to ${latest}.`;
    if (isOlder(version, min))
      return failure("version", `This program is ${version}; the server needs at least ${min}.`, fix);
    if (isOlder(version, update)) return warning("version", `This program is ${version}; ${latest} is available.`, fix);
    return ok("version", `${version} is supported by the server`);
  } catch (error) {
    return failure("version", (error as Error).message, "Check the server.");
  }
}

async function checkKey(connection: Connection): Promise<Finding> {
  const signIn = "Run `stoker login`, or set STOKER_API_KEY.";
  if (connection.keySource === undefined) return warning("key", `There is no API key for ${connection.host}.`, signIn);
  try {
    const { display_name: name, uid } = await openApi(connection).call<Responses["GET /v1/me"]>("GET", "/v1/me");
    return ok("key", `valid for ${name} (${uid}), from ${connection.keySource}`);
  } catch (error) {
    const isRejected = error instanceof CliError && error.exitCode === exitCode.notAuthenticated;
    return failure("key", (error as Error).message, isRejected ? signIn : "Check the server.");
  }
}

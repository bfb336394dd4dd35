// Translates a cloud-config into a shell script: users, ssh_authorized_keys, write_files and runcmd, in cloud-init's order.
// Unsupported keys are named in the log. Every value is quoted: the shell interprets only runcmd's lines.
import { firstStartRefused } from "./errors.ts";

type Map = Readonly<Record<string, unknown>>;

interface Part {
  readonly lines: readonly string[];
  readonly hasKeys?: boolean;
}

const known = new Set(["users", "ssh_authorized_keys", "write_files", "runcmd"]);
const userForm = /^[a-z_][a-z0-9_-]{0,31}$/;
const modeForm = /^0?[0-7]{3,4}$/;
const ownerForm = /^[a-z_][a-z0-9_-]{0,31}(:[a-z_][a-z0-9_-]{0,31})?$/;
const maxScriptBytes = 90_000;

/** Throws firstStartRefused. */
export function scriptOf(config: Map): { readonly script: string; readonly mayOpen: boolean } {
  const ignored = Object.keys(config).filter((key) => !known.has(key));
  const parts: readonly Part[] = [
    {
      lines: ignored.map((key) => `echo ${quoted(`stoker: cloud-config key ${key} is not supported and is ignored`)}`),
    },
    users(config["users"]),
    keysOf("ubuntu", config["ssh_authorized_keys"], "ssh_authorized_keys"),
    files(config["write_files"]),
    commands(config["runcmd"]),
  ];
  const script = ["#!/bin/sh", "failed=0", ...parts.flatMap((part) => part.lines), 'exit "$failed"', ""].join("\n");
  if (Buffer.byteLength(script) > maxScriptBytes)
    throw firstStartRefused("cloud_init_user_data is too long once its values are quoted; fetch large files instead.");
  return { script, mayOpen: parts.some((part) => part.hasKeys === true) };
}

/** A failed command is logged and does not stop the next one. */
const attempt = (what: string, command: string) =>
  `{ ${command}; } || { failed=1; echo ${quoted(`stoker: error: ${what} failed`)}; }`;

function users(value: unknown): Part {
  const parts = list(value, "users").map((entry, index): Part => {
    if (entry === "default") return { lines: [] };
    const at = `users[${index}]`;
    const user = typeof entry === "string" ? { name: entry } : map(entry, at);
    const name = text(user["name"], `${at}.name`);
    if (!userForm.test(name)) throw refused(`${at}.name`, "is not a valid user name");
    const shell = user["shell"] === undefined ? "/bin/bash" : text(user["shell"], `${at}.shell`);
    const make = `id ${name} >/dev/null 2>&1 || useradd --create-home --shell ${quoted(shell)} ${name} && usermod -p '*' ${name}`;
    const groups = groupsOf(user["groups"], at);
    const joined = groups.map((group) =>
      attempt(
        `group ${group} of ${name}`,
        `getent group ${group} >/dev/null || groupadd ${group}; usermod -aG ${group} ${name}`,
      ),
    );
    const keys = keysOf(name, user["ssh_authorized_keys"], `${at}.ssh_authorized_keys`);
    return {
      lines: [attempt(`user ${name}`, make), ...joined, ...sudo(name, user["sudo"], at), ...keys.lines],
      hasKeys: keys.hasKeys === true,
    };
  });
  return { lines: parts.flatMap((part) => part.lines), hasKeys: parts.some((part) => part.hasKeys) };
}

function groupsOf(value: unknown, at: string): readonly string[] {
  const all = typeof value === "string" ? value.split(",").map((one) => one.trim()) : list(value, `${at}.groups`);
  return all.map((group) => {
    if (typeof group !== "string" || !userForm.test(group))
      throw refused(`${at}.groups`, "contains an invalid group name");
    return group;
  });
}

function sudo(name: string, value: unknown, at: string): readonly string[] {
  if (value === undefined || value === null || value === false) return [];
  const rules = (Array.isArray(value) ? value : [value]).map((rule) => text(rule, `${at}.sudo`));
  if (rules.some((rule) => rule.includes("\n"))) throw refused(`${at}.sudo`, "must be one line per rule");
  const file = `/etc/sudoers.d/91-${name}`;
  const body = rules.map((rule) => `${name} ${rule}\n`).join("");
  return [attempt(`sudo of ${name}`, `printf '%s' ${quoted(body)} >${file} && chmod 440 ${file}`)];
}

function keysOf(name: string, value: unknown, at: string): Part {
  const keys = list(value, at).map((key) => text(key, at).trim());
  if (keys.some((key) => key === "" || key.includes("\n"))) throw refused(at, "contains a key that is not one line");
  if (keys.length === 0) return { lines: [] };
  const lines = quoted(keys.map((key) => `${key}\n`).join(""));
  const home = `home=$(sed -n 's/^${name}:[^:]*:[^:]*:[^:]*:[^:]*:\\([^:]*\\):.*/\\1/p' /etc/passwd) && [ -n "$home" ]`;
  const write = `mkdir -p "$home/.ssh" && printf '%s' ${lines} >>"$home/.ssh/authorized_keys"`;
  const close = `chmod 700 "$home/.ssh" && chmod 600 "$home/.ssh/authorized_keys" && chown -R ${name} "$home/.ssh"`;
  return { lines: [attempt(`SSH keys of ${name}`, `${home} && ${write} && ${close}`)], hasKeys: true };
}

function files(value: unknown): Part {
  const lines = list(value, "write_files").map((entry, index) => {
    const at = `write_files[${index}]`;
    const file = map(entry, at);
    const path = text(file["path"], `${at}.path`);
    if (!path.startsWith("/") || path.includes("\0")) throw refused(`${at}.path`, "is not an absolute path");
    const content = contentOf(file, at).toString("base64");
    const mode = String(file["permissions"] ?? "0644");
    if (!modeForm.test(mode)) throw refused(`${at}.permissions`, 'is no mode such as "0644"; quote it in the YAML');
    const owner = String(file["owner"] ?? "root:root");
    if (!ownerForm.test(owner)) throw refused(`${at}.owner`, "is not user:group");
    const into = file["append"] === true ? ">>" : ">";
    const target = quoted(path);
    return attempt(
      `write_files ${path.replaceAll("\n", " ")}`,
      `mkdir -p "$(dirname ${target})" && printf '%s' ${content || "''"} | base64 -d ${into}${target} && chmod ${mode} ${target} && chown ${owner} ${target}`,
    );
  });
  return { lines };
}

function contentOf(file: Map, at: string): Buffer {
  const content =
    file["content"] === undefined || file["content"] === null ? "" : text(file["content"], `${at}.content`);
  const encoding = String(file["encoding"] ?? "text/plain").toLowerCase();
  if (encoding === "text/plain") return Buffer.from(content);
  if (encoding === "b64" || encoding === "base64") return Buffer.from(content, "base64");
  throw refused(`${at}.encoding`, "must be text/plain or b64");
}

/** A string is run by the shell; a list is a command and its arguments, run without a shell. */
function commands(value: unknown): Part {
  const lines = list(value, "runcmd").map((entry, index) => {
    const at = `runcmd[${index}]`;
    const command = Array.isArray(entry)
      ? entry.map((word) => quoted(text(word, at))).join(" ")
      : `sh -c ${quoted(text(entry, at))}`;
    if (Array.isArray(entry) && entry.length === 0) throw refused(at, "is an empty command");
    return attempt(at, command);
  });
  return { lines };
}

function list(value: unknown, at: string): readonly unknown[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw refused(at, "must be a list");
  return value;
}

function map(value: unknown, at: string): Map {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw refused(at, "must be a map");
  return value as Map;
}

function text(value: unknown, at: string): string {
  if (typeof value === "number") return String(value);
  if (typeof value !== "string") throw refused(at, "must be a string");
  return value;
}

const quoted = (value: string) => `'${value.replaceAll("'", `'\\''`)}'`;
const refused = (at: string, why: string) => firstStartRefused(`cloud_init_user_data: ${at} ${why}.`);

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { CliError } from "../../../cli/cli-error.ts";
import { hostEnvironment } from "../../../cli/on-host.ts";

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), "stoker-cli-"));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

it("finds the database and key file of a data folder", () => {
  const data = join(folder(), "data");
  mkdirSync(join(data, "secrets"), { recursive: true });
  writeFileSync(join(data, "secrets", "postgres.password"), "p/w\n");
  writeFileSync(join(data, "ports.json"), '{"postgres":5433}');
  const places = {
    DATABASE_URL: "postgres://stoker:p%2Fw@127.0.0.1:5433/stoker",
    STOKER_SECRETS_DIR: join(data, "secrets"),
    STOKER_ADMIN_KEY_FILE: join(data, "admin.key"),
  };
  expect(hostEnvironment({}, data, "/")).toEqual(places);
  expect(hostEnvironment({ STOKER_DATA: data }, undefined, "/")).toMatchObject(places);
  const same = "postgresql://stoker:p%2Fw@localhost:5433/stoker";
  expect(hostEnvironment({ DATABASE_URL: same }, data, "/")).toEqual({ ...places, DATABASE_URL: same });
  expect(hostEnvironment({ STOKER_ADMIN_KEY_FILE: "/k" }, data, "/")).toMatchObject({ STOKER_ADMIN_KEY_FILE: "/k" });
});

/** A working directory whose `.stoker` is an installation with its own database. */
function withOwnDatabase(): string {
  const cwd = folder();
  mkdirSync(join(cwd, ".stoker", "secrets"), { recursive: true });
  writeFileSync(join(cwd, ".stoker", "secrets", "postgres.password"), "pw\n");
  writeFileSync(join(cwd, ".stoker", "ports.json"), '{"postgres":5433}');
  return cwd;
}

describe("with a data folder", () => {
  const url = "postgresql://db.internal/stoker";

  it("prefers the database and the secrets folder of the environment", () => {
    const env = { DATABASE_URL: url, STOKER_SECRETS_DIR: "/s" };
    expect(hostEnvironment(env, undefined, withOwnDatabase())).toEqual(env);
    const cwd = withOwnDatabase();
    expect(hostEnvironment({ ...env, STOKER_DATA: join(cwd, ".stoker") }, undefined, cwd)).toMatchObject(env);
    expect(hostEnvironment({ ...env, STOKER_SECRETS_DIR: "s" }, undefined, cwd)).toMatchObject({
      STOKER_SECRETS_DIR: join(cwd, "s"),
    });
  });

  it("rejects a database and secrets of two installations", () => {
    const cwd = withOwnDatabase();
    for (const [env, flag] of [
      [{ DATABASE_URL: url }, undefined],
      [{ DATABASE_URL: url }, ".stoker"],
      [{ DATABASE_URL: url, STOKER_DATA: ".stoker" }, undefined],
      [{ STOKER_SECRETS_DIR: "/s" }, undefined],
      [{ DATABASE_URL: url, STOKER_SECRETS_DIR: "/s" }, ".stoker"],
    ] as const)
      expect(() => hostEnvironment(env, flag, cwd)).toThrow(/^(DATABASE_URL|STOKER_SECRETS_DIR) is .*, but .*\. Set /);
  });

  it("accepts DATABASE_URL with a folder without a database only if the folder is named", () => {
    const cwd = folder();
    mkdirSync(join(cwd, ".stoker", "secrets"), { recursive: true });
    expect(() => hostEnvironment({ DATABASE_URL: url }, undefined, cwd)).toThrow(/STOKER_SECRETS_DIR/);
    const pair = { DATABASE_URL: url, STOKER_SECRETS_DIR: join(cwd, ".stoker", "secrets") };
    expect(hostEnvironment({ DATABASE_URL: url }, ".stoker", cwd)).toMatchObject(pair);
  });
});

it("uses the environment without a data folder", () => {
  const env = { DATABASE_URL: "postgresql://db/stoker", STOKER_SECRETS_DIR: "/s", STOKER_ADMIN_KEY_FILE: "/k" };
  expect(hostEnvironment({ ...env, STOKER_DATA: "/nowhere" }, undefined, "/")).toMatchObject(env);
});

it("names the options if no installation is found", () => {
  expect(() => hostEnvironment({}, "/nowhere", "/")).toThrow(/--data/);
  const data = folder();
  mkdirSync(join(data, "secrets"));
  expect(() => hostEnvironment({}, data, "/")).toThrow(CliError);
});

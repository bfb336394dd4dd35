// Profile, team name and SSH keys on a real PostgreSQL.
import { generateKeyPairSync } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createSshKeys } from "../../../control-plane/accounts/ssh-keys.ts";
import { createProfileStore } from "../../../control-plane/store/accounts/profile-store.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { signInParts } from "../../fakes/sign-in-parts.ts";
import { openWorld } from "../billing/world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

async function twoPeople() {
  const world = await openWorld(postgres);
  const profiles = createProfileStore(world.db);
  const make = async (name: string, isAdmin = false) =>
    (
      await world.accounts.createAccount({
        email: `${name}@example.com`,
        displayName: name,
        creditNanoUsd: nano(0n),
        isAdmin,
      })
    ).account;
  return {
    world,
    ada: { account: await make("ada"), ip: "192.0.2.1" },
    bob: { account: await make("bob"), ip: "192.0.2.2" },
    make,
    profiles: signInParts(world, { unixMs: () => 1_786_000_000_000 }).profiles,
    sshKeys: createSshKeys(profiles, () => 1_786_000_000_000),
  };
}

describe("the profile", () => {
  it("stores changed fields and leaves the rest", async () => {
    const { ada, profiles } = await twoPeople();
    const before = await profiles.read(ada.account);
    const after = await profiles.change(ada, { firstName: "Ada", isBusinessAccount: true, website: "" });
    expect(after).toEqual({ ...before, firstName: "Ada", isBusinessAccount: true });
    expect(await profiles.read(ada.account)).toEqual(after);
    expect(await profiles.change(ada, {})).toEqual(after);
  });

  it("refuses another account's display name, and its e-mail address in any case, changing nothing", async () => {
    const { ada, profiles } = await twoPeople();
    const before = await profiles.read(ada.account);
    const name = await profiles.change(ada, { displayName: "bob", company: "X" }).catch((error) => error);
    const email = await profiles.change(ada, { email: "BOB@example.com", company: "X" }).catch((error) => error);
    expect([name, email].map((error) => [error.code, error.param])).toEqual([
      ["name_taken", "display_name"],
      ["name_taken", "email"],
    ]);
    expect(await profiles.read(ada.account)).toEqual(before);
  });

  it("treats an address from its owner as unverified, an operator's own as verified", async () => {
    const { ada, profiles, make } = await twoPeople();
    expect(await profiles.emails(ada.account)).toEqual(["ada@example.com"]);
    expect((await profiles.change(ada, { email: "ada@example.com" })).emailVerified).toBe(true);
    expect((await profiles.change(ada, { email: "ada@example.org" })).emailVerified).toBe(false);
    expect(await profiles.emails(ada.account)).toEqual([]);
    const operator = { account: await make("root", true), ip: "" };
    await profiles.change(operator, { email: "root@example.org" });
    expect(await profiles.emails(operator.account)).toEqual(["root@example.org"]);
  });

  it("informs the audit log and every replica when sign-in address or name change", async () => {
    const { world, ada, profiles } = await twoPeople();
    await profiles.change(ada, { email: "a@example.org" });
    const { rows } = await world.pool.query(
      "select actor, action, account_id, ip, before, after from audit where action = 'account.change'",
    );
    expect(rows).toEqual([
      {
        actor: ada.account,
        action: "account.change",
        account_id: ada.account,
        ip: ada.ip,
        before: { email: "ada@example.com", display_name: "ada" },
        after: { email: "a@example.org", display_name: "ada" },
      },
    ]);
    const { rows: told } = await world.pool.query("select topic, subject from change order by seq desc limit 1");
    expect(told).toEqual([{ topic: "account", subject: ada.account }]);
  });

  it("of a deleted account is refused", async () => {
    const { profiles } = await twoPeople();
    const nobody = { account: "u:0000000000000" as AccountId, ip: "" };
    await expect(profiles.read(nobody.account)).rejects.toMatchObject({ code: "account_not_found" });
    await expect(profiles.change(nobody, { name: "x" })).rejects.toMatchObject({ code: "account_not_found" });
  });
});

describe("a team's display name", () => {
  it("is for team accounts, unique among them", async () => {
    const { world, ada, bob, profiles } = await twoPeople();
    await expect(profiles.nameTeam(ada, "crew")).rejects.toMatchObject({ code: "not_in_team" });
    await world.pool.query("update account set is_team_account = true");
    expect(await profiles.nameTeam(ada, "crew")).toMatchObject({
      isTeamAccount: true,
      isTeamOwner: true,
      teamDisplayName: "crew",
      displayName: "ada",
    });
    await expect(profiles.nameTeam(bob, "crew")).rejects.toMatchObject({ code: "name_taken" });
    expect((await profiles.nameTeam(ada, "crew")).teamDisplayName).toBe("crew");
  });
});

describe("SSH keys", () => {
  const publicKey = () => {
    const { x } = generateKeyPairSync("ed25519").publicKey.export({ format: "jwk" });
    const part = (bytes: Buffer) => Buffer.concat([Buffer.from([0, 0, 0, bytes.length]), bytes]);
    const blob = Buffer.concat([part(Buffer.from("ssh-ed25519")), part(Buffer.from(x as string, "base64url"))]);
    return `ssh-ed25519 ${blob.toString("base64")} ada@laptop`;
  };

  it("belong to one account: names may repeat between accounts, lists and deletions are separate", async () => {
    const { ada, bob, sshKeys } = await twoPeople();
    const mine = await sshKeys.add(ada.account, "laptop", publicKey());
    const his = await sshKeys.add(bob.account, "laptop", publicKey());
    await expect(sshKeys.add(ada.account, "laptop", publicKey())).rejects.toMatchObject({ code: "name_taken" });
    expect(await sshKeys.list(ada.account)).toEqual([mine]);
    await expect(sshKeys.remove(ada.account, his.id)).rejects.toMatchObject({ code: "ssh_key_not_found" });
    await sshKeys.remove(bob.account, his.id);
    expect(await sshKeys.list(bob.account)).toEqual([]);
    expect(await sshKeys.list(ada.account)).toEqual([mine]);
  });
});

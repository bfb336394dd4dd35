// What an operator may do about an account. Each act is audited with its reason.
import { Checkbox, NumberInput, Select, Stack, TextInput } from "@mantine/core";
import { IconEye } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { suspendReasons } from "../../../proto/suspend-reason.ts";
import { useApi } from "../../api/context.ts";
import { useRefresh } from "../../api/hooks.ts";
import { useVisitor } from "../../app/visitor.ts";
import { text as all } from "../../text/operator-accounts.ts";
import { Act } from "../../ui/act.tsx";
import type { Fields } from "../../ui/form.tsx";
import { NoteAct } from "../../ui/note-act.tsx";
import { type Account, pathOfAccount } from "./account-path.ts";

const text = all.detail;

export function AccountActions({ one }: { one: Account }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const { me, viewAccount } = useVisitor();
  const navigate = useNavigate();
  const { uid, display_name: name } = one;
  const call = async (verb: string, body: object) => {
    await api.call("POST", `${pathOfAccount(uid)}/${verb}`, body);
    await refresh(pathOfAccount(uid));
  };
  const view = async () => {
    await viewAccount(uid);
    await navigate({ to: "/" });
  };
  return (
    <>
      {uid !== me.uid && (
        <Act
          label={text.view}
          leftSection={<IconEye size={14} />}
          color="violet"
          variant="light"
          confirm={{ title: text.viewTitle(name), body: text.viewBody }}
          onAct={view}
        />
      )}
      <Credit one={one} />
      {one.suspensions.length > 0 && (
        <NoteAct
          label={text.liftAll}
          title={text.liftTitle(name)}
          body={text.liftBody}
          command={`stoker admin account lift ${uid} --note TEXT`}
          done={text.liftDone}
          onAct={(note) => call("lift", { note })}
        />
      )}
      <NoteAct
        label={text.suspend}
        title={text.suspendTitle(name)}
        body={text.suspendBody}
        color="red"
        variant="light"
        command={`stoker admin account suspend ${uid} --note TEXT`}
        done={text.suspendDone}
        fields={
          <Select
            label={text.suspendReason}
            name="reason"
            data={[...suspendReasons]}
            defaultValue="admin"
            allowDeselect={false}
          />
        }
        onAct={(note, { reason }) => call("suspend", { reason, note })}
      />
      <ChangeRoles one={one} />
      <Act
        label={text.factors}
        command={`stoker admin sign-in reset ${uid}`}
        confirm={{ title: text.factorsTitle(name), body: text.factorsBody, word: name }}
        done={text.factorsDone}
        onAct={() => api.call("DELETE", `${pathOfAccount(uid)}/factors`)}
      />
    </>
  );
}

function Credit({ one: { uid, display_name: name } }: { one: Account }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const [reference, setReference] = useState(newReference);
  const credit = async (note: string, { amount, reference: given = "", below }: Fields) => {
    const body = { amount_usd: Number(amount), note, may_go_below_zero: below === "on" };
    await api.call("POST", `${pathOfAccount(uid)}/credit`, body, { "idempotency-key": given });
    setReference(newReference());
    await refresh(pathOfAccount(uid));
  };
  return (
    <NoteAct
      label={text.credit}
      title={text.creditTitle(name)}
      body={text.creditBody}
      command={`stoker admin account credit ${uid} USD --note TEXT`}
      done={text.creditDone}
      fields={
        <Stack gap="sm">
          <NumberInput label={text.amount} name="amount" decimalScale={2} required />
          <TextInput
            label={text.reference}
            description={text.referenceHint}
            name="reference"
            maxLength={255}
            pattern="[!-~]+"
            defaultValue={reference}
            required
          />
          <Checkbox label={text.belowZero} name="below" />
        </Stack>
      }
      onAct={credit}
    />
  );
}

const newReference = (): string => `console-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;

function ChangeRoles({ one }: { one: Account }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const { uid } = one;
  const change = async (note: string, { admin, team, priority }: Fields) => {
    const body = { is_admin: admin === "on", is_team_account: team === "on", may_prioritize: priority === "on", note };
    await api.call("PATCH", pathOfAccount(uid), body);
    await refresh(pathOfAccount(uid));
  };
  return (
    <NoteAct
      label={text.rolesAct}
      title={text.rolesTitle(one.display_name)}
      command={`stoker admin account update ${uid} --admin --note TEXT`}
      done={text.rolesDone}
      fields={
        <Stack gap="xs">
          <Checkbox label={text.isAdmin} name="admin" defaultChecked={one.is_admin} />
          <Checkbox label={text.isTeam} name="team" defaultChecked={one.is_team_account} />
          <Checkbox label={text.mayPrioritize} name="priority" defaultChecked={one.may_prioritize} />
        </Stack>
      }
      onAct={change}
    />
  );
}

import { Code, Stack, Textarea, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { keyFaultOf } from "../../domain/rental.ts";
import { text as all } from "../../text/rentals.ts";
import { Act } from "../../ui/act.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Form } from "../../ui/form.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Section } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";

type SshKey = Responses["GET /v1/ssh_keys"][number];

const text = all.keys;
const path = "/v1/ssh_keys";

export function SshKeys(): ReactNode {
  const keys = useGet<readonly SshKey[]>(path);
  return (
    <Section
      title={text.title}
      about={text.about}
      actions={<Dialog label={text.add}>{(close) => <AddKey onAdded={close} />}</Dialog>}
    >
      <Loaded query={keys}>
        {(rows) => (
          <DataTable name="SSH keys" id="k-" rows={rows} columns={columns} keyOf={({ id }) => id} empty={text.empty} />
        )}
      </Loaded>
    </Section>
  );
}

const columns: readonly Column<SshKey>[] = [
  { name: text.name, value: ({ name }) => name },
  {
    name: text.fingerprint,
    value: ({ fingerprint }) => fingerprint,
    show: ({ fingerprint }) => <Code>{fingerprint}</Code>,
  },
  { name: text.created, value: (one) => one.created_at, show: (one) => <Ago at={one.created_at} /> },
  actionsColumn((one) => <DeleteKey one={one} />),
];

function DeleteKey({ one: { id, name } }: { one: SshKey }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  return (
    <Act
      label={text.delete}
      color="red"
      variant="light"
      done={text.deleted}
      confirm={{ title: text.deleteTitle(name), body: text.deleteBody }}
      onAct={async () => {
        await api.call("DELETE", `${path}/${encodeURIComponent(id)}`);
        await refresh(path);
      }}
    />
  );
}

function AddKey({ onAdded }: { onAdded: () => void }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const [key, setKey] = useState("");
  const fault = key.trim() === "" ? undefined : keyFaultOf(key);
  return (
    <Form
      act={text.add}
      done={text.added}
      disabled={fault !== undefined}
      onSend={async ({ name }) => {
        await api.call("POST", path, { name, key: key.trim() });
        await refresh(path);
        onAdded();
      }}
    >
      <Stack gap="sm">
        <TextInput label={text.name} name="name" maxLength={64} required data-autofocus />
        <Textarea
          label={text.key}
          description={text.keyHint}
          placeholder="ssh-ed25519 AAAA… you@laptop"
          value={key}
          maxLength={32_000}
          required
          autosize
          minRows={3}
          spellCheck={false}
          error={fault && (fault === "private" ? text.isPrivate : text.notPublic)}
          onChange={(event) => setKey(event.currentTarget.value)}
        />
      </Stack>
    </Form>
  );
}

// Events of the whole fleet, filtered by the address.
import { Button, Group, Stack, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, type ReactNode, useState } from "react";
import { useFilter } from "../../app/place.ts";
import { text } from "../../text/fleet-events.ts";
import { Choice } from "../../ui/choice.tsx";
import { Page, Section } from "../../ui/page.tsx";
import { AccountFilter } from "../operator/account-choice.tsx";
import { EventList } from "./event-list.tsx";

const fields = ["node", "deploy_id"] as const;
const labels = {
  node: { label: text.node, placeholder: text.nodeHint },
  deploy_id: { label: text.deployment, placeholder: text.deploymentHint },
} as const;

export function EventsPage(): ReactNode {
  const [kind, setKind] = useFilter("kind");
  const [node] = useFilter("node");
  const [account] = useFilter("account");
  const [deployment] = useFilter("deploy_id");
  const filter = { kind, node, account, deploy_id: deployment };
  return (
    <Page title={text.title} about={text.about}>
      <Section>
        <Stack gap="md">
          <Choice label={text.noun} options={text.nouns} value={kind} onChange={setKind} />
          <Filter key={`${node} ${deployment}`} set={filter} />
          <EventList path="/v1/admin/events" filter={filter} />
        </Stack>
      </Section>
    </Page>
  );
}

/** Applied at once: each key would be a request. */
function Filter({ set }: { set: Readonly<Record<string, string>> }): ReactNode {
  const navigate = useNavigate();
  const [typed, setTyped] = useState(set);
  const apply = (values: Readonly<Record<string, string>>) =>
    void navigate({ to: ".", search: { ...values } as never, replace: true, resetScroll: false });
  const send = (event: FormEvent) => {
    event.preventDefault();
    apply({ ...set, ...Object.fromEntries(fields.map((field) => [field, typed[field]?.trim() ?? ""])) });
  };
  return (
    <form onSubmit={send}>
      <Group gap="sm" align="flex-end">
        <AccountFilter name="account" label={text.account} size="xs" w={240} />
        {fields.map((field) => (
          <TextInput
            key={field}
            size="xs"
            {...labels[field]}
            maxLength={64}
            value={typed[field] ?? ""}
            onChange={(event) => setTyped({ ...typed, [field]: event.currentTarget.value })}
          />
        ))}
        <Button type="submit" size="xs" variant="default">
          {text.apply}
        </Button>
        {[...fields, "account"].some((field) => set[field]) && (
          <Button size="xs" variant="subtle" onClick={() => apply({ kind: set["kind"] ?? "" })}>
            {text.clear}
          </Button>
        )}
      </Group>
    </form>
  );
}

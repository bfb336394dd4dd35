import { Alert, Button, Loader, Select, SimpleGrid, Stack, Text, TextInput } from "@mantine/core";
import { IconCheck } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useRefresh } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { serverUrl } from "../../app/visitor.ts";
import { controlAddress, joinCommand } from "../../domain/enrolment.ts";
import { pathOfNode } from "../../domain/fleet.ts";
import type { Enrolment } from "../../domain/host.ts";
import { text } from "../../text/fleet-enrolment.ts";
import { listOf } from "../../ui/choice.tsx";
import { Code, Command } from "../../ui/code.tsx";
import { type Fields, Form } from "../../ui/form.tsx";
import { LinkButton } from "../../ui/link.tsx";
import { Section } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";

type Made = Responses["POST /v1/admin/nodes/tokens"];

export function NewToken({ enrolment }: { enrolment: Enrolment }): ReactNode {
  const [made, setMade] = useState<Made | undefined>(undefined);
  if (made) return <JoinLine made={made} enrolment={enrolment} onAgain={() => setMade(undefined)} />;
  return <TokenForm onMade={setMade} />;
}

function TokenForm({ onMade }: { onMade: (made: Made) => void }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const [node] = useFilter("node");
  const words = text.create;
  const create = async ({ pool = "", lifetime, node_id: wanted = "" }: Fields) => {
    const body = { pool, ttl_seconds: Number(lifetime), node_id: wanted.trim() || null };
    onMade(await api.call<Made>("POST", "/v1/admin/nodes/tokens", body));
    await refresh("/v1/admin/nodes/enrolment");
  };
  return (
    <Section title={words.title}>
      <Form act={words.act} onSend={create} beside={<Command value="stoker node token create" />}>
        <SimpleGrid cols={{ base: 1, sm: 2 }}>
          <Select
            label={words.lifetime}
            name="lifetime"
            data={listOf(words.lifetimes)}
            defaultValue="900"
            allowDeselect={false}
            comboboxProps={{ withinPortal: true }}
          />
          <TextInput label={words.pool} description={words.poolHint} name="pool" maxLength={64} pattern="[\w.\-]*" />
        </SimpleGrid>
        <TextInput
          label={words.node}
          description={words.nodeHint}
          name="node_id"
          maxLength={253}
          defaultValue={node}
          autoComplete="off"
        />
      </Form>
    </Section>
  );
}

interface JoinLineProps {
  readonly made: Made;
  readonly enrolment: Enrolment;
  readonly onAgain: () => void;
}

function JoinLine({ made, enrolment, onAgain }: JoinLineProps): ReactNode {
  const words = text.made;
  const [control, setControl] = useState(() =>
    controlAddress(enrolment.agent_address, new URL(serverUrl()).hostname.replace(/^\[|\]$/g, "")),
  );
  const [advertise, setAdvertise] = useState("");
  return (
    <Section title={words.title} about={words.once}>
      <Stack gap="sm">
        <Code value={joinCommand(made.token, control, advertise)} label={words.title} />
        <SimpleGrid cols={{ base: 1, sm: 2 }}>
          <TextInput
            label={words.control}
            description={words.controlHint}
            value={control}
            onChange={(event) => setControl(event.currentTarget.value)}
          />
          <TextInput
            label={words.advertise}
            description={words.advertiseHint}
            value={advertise}
            placeholder="https://10.0.0.7:9100"
            onChange={(event) => setAdvertise(event.currentTarget.value)}
          />
        </SimpleGrid>
        <Joined token={made.token_id} enrolment={enrolment} />
        <Text size="sm" c="dimmed">
          {words.until} <Ago at={made.expires_at} />
        </Text>
        <div>
          <Button variant="default" size="xs" onClick={onAgain}>
            {text.create.again}
          </Button>
        </div>
      </Stack>
    </Section>
  );
}

/** Follows the token until its host has connected. */
function Joined({ token, enrolment }: { token: string; enrolment: Enrolment }): ReactNode {
  const words = text.made;
  const id = enrolment.tokens.find(({ token_id: own }) => own === token)?.used_by ?? null;
  const host = enrolment.nodes.find(({ node_id: own }) => own === id);
  if (id === null || host?.name == null)
    return (
      <Text size="sm" role="status">
        <Loader size={12} mr={8} />
        {id === null ? words.waiting : words.enrolled(id)}
      </Text>
    );
  return (
    <Alert color="green" variant="light" icon={<IconCheck />} role="status" title={words.joined(host.name)}>
      <LinkButton to={pathOfNode(id)} size="xs" variant="light">
        {words.open}
      </LinkButton>
    </Alert>
  );
}

// Buttons by the state of the host; each names its command.
import { Text, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { useApi } from "../../api/context.ts";
import { useRefresh } from "../../api/hooks.ts";
import { nodeCommand, noteOption } from "../../domain/drain.ts";
import { actsOf, type HostAct } from "../../domain/host.ts";
import { text } from "../../text/fleet-host.ts";
import { Act } from "../../ui/act.tsx";
import { LinkButton } from "../../ui/link.tsx";
import { DrainDialog } from "./drain-dialog.tsx";
import type { NodeDetail } from "./host.tsx";

const words = text.acts;

interface HostActionsProps {
  readonly node: NodeDetail;
  readonly isRevoked: boolean;
}

export function HostActions({ node, isRevoked }: HostActionsProps): ReactNode {
  return actsOf(node, isRevoked).map((act) => <HostButton key={act} act={act} node={node} />);
}

function HostButton({ act, node }: { act: HostAct; node: NodeDetail }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const navigate = useNavigate();
  const [note, setNote] = useState("");
  const { node_id: id, name } = node;
  const isDraining = node.operation?.kind === "drain";
  const path = `/v1/admin/nodes/${encodeURIComponent(id)}`;
  const reason = note.trim() === "" ? {} : { note: note.trim() };
  const call = async (verb: string) => {
    await api.call("POST", `${path}/${verb}`, reason);
    await refresh("/v1/admin/nodes", "/v1/admin/events");
  };
  const remove = async () => {
    await api.call("DELETE", `${path}?${new URLSearchParams(reason)}`);
    await refresh("/v1/admin/nodes");
    await navigate({ to: "/fleet" as never });
  };
  const body = (about: string) => (
    <>
      <Text size="sm" mb="sm">
        {about}
      </Text>
      <TextInput
        label={words.note}
        description={words.noteHint}
        maxLength={500}
        value={note}
        onChange={(event) => setNote(event.currentTarget.value)}
      />
    </>
  );
  const command = (verb: string) => nodeCommand(verb, name, noteOption(note));
  switch (act) {
    case "cordon":
      return (
        <Act
          label={words.cordon}
          color="ember"
          command={command("cordon")}
          done={words.cordoned}
          confirm={{ title: words.cordonTitle(name), body: body(words.cordonBody) }}
          onAct={() => call("cordon")}
        />
      );
    case "uncordon":
      return (
        <Act
          label={isDraining ? words.cancelDrain : words.uncordon}
          color="ember"
          command={command("uncordon")}
          done={words.uncordoned}
          confirm={{
            title: words.uncordonTitle(name),
            body: body(isDraining ? words.cancelBody : words.uncordonBody),
          }}
          onAct={() => call("uncordon")}
        />
      );
    case "drain":
      return <DrainDialog node={node} />;
    case "adopt":
      return (
        <Act
          label={words.adopt}
          command={command("adopt")}
          done={words.adopted}
          confirm={{ title: words.adoptTitle(name), body: body(words.adoptBody) }}
          onAct={() => call("adopt")}
        />
      );
    case "end_unknown":
      return (
        <Act
          label={words.endUnknown}
          command={command("end-unknown")}
          done={words.ended}
          confirm={{ title: words.endUnknownTitle(name), body: body(words.endUnknownBody) }}
          onAct={() => call("end-unknown")}
        />
      );
    case "take_back":
      return (
        <LinkButton to={`/enrolment?node=${encodeURIComponent(id)}`} size="xs" variant="default">
          {words.takeBack}
        </LinkButton>
      );
    case "remove":
      return (
        <Act
          label={words.remove}
          color="red"
          variant="light"
          command={nodeCommand("remove", name)}
          done={words.removed}
          confirm={{ title: words.removeTitle(name), body: body(words.removeBody), word: name }}
          onAct={remove}
        />
      );
    case "revoke":
      return (
        <Act
          label={words.revoke}
          color="red"
          variant="light"
          command={command("revoke")}
          done={words.wasRevoked}
          confirm={{ title: words.revokeTitle(name), body: body(words.revokeBody(node.instances.length)), word: name }}
          onAct={() => call("revoke")}
        />
      );
  }
}

import { Button, type ButtonProps, Group, Stack, Text, TextInput, Tooltip } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { type ReactNode, useState } from "react";
import { type Right, useBarred } from "../app/visitor.ts";
import { text } from "../text/common.ts";
import { Command } from "./code.tsx";
import { Modal } from "./modal.tsx";
import { ErrorNotice } from "./notice.tsx";

export interface Confirmation {
  readonly title: string;
  /** What happens, what moves, what cannot be undone. */
  readonly body: ReactNode;
  /** Word that must be typed first. */
  readonly word?: string;
}

interface ActProps extends Pick<ButtonProps, "variant" | "color" | "size" | "leftSection" | "disabled"> {
  readonly label: string;
  readonly confirm?: Confirmation;
  /** The same on the command line. */
  readonly command?: string;
  /** Message after success. */
  readonly done?: string;
  /** Why the button is disabled. */
  readonly why?: string;
  /** Changes nothing, so an operator who views the account may use it too. */
  readonly isReading?: boolean;
  /** Default: the right of the page. */
  readonly needs?: Right;
  readonly onAct: () => Promise<unknown>;
}

/** Button that runs an action, asks first where it destroys something, and shows what the server refused. */
export function Act({
  label,
  confirm,
  command,
  done,
  why: given,
  isReading,
  needs,
  onAct,
  ...button
}: ActProps): ReactNode {
  const barred = useBarred(needs);
  const why = isReading ? given : (barred ?? given);
  const [isOpen, setOpen] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [typed, setTyped] = useState("");
  const [error, setError] = useState<unknown>(undefined);
  const act = async () => {
    setBusy(true);
    setError(undefined);
    try {
      await onAct();
      setOpen(false);
      if (done) notifications.show({ message: done, color: "green" });
    } catch (caught) {
      setError(caught);
      // Without a dialog the message appears in a corner.
      if (!confirm)
        notifications.show({
          color: "red",
          autoClose: 15_000,
          message: <ErrorNotice error={caught} />,
          withBorder: true,
        });
    } finally {
      setBusy(false);
    }
  };
  const open = () => {
    setTyped("");
    setError(undefined);
    setOpen(true);
  };
  const main = (
    <Button
      variant="default"
      size="xs"
      {...button}
      disabled={button.disabled || why !== undefined}
      loading={isBusy && !isOpen}
      onClick={() => (confirm ? open() : void act())}
    >
      {label}
    </Button>
  );
  const hint = why ?? command;
  return (
    <>
      {hint ? <Tooltip label={hint}>{why ? <span>{main}</span> : main}</Tooltip> : main}
      {confirm && (
        <Modal opened={isOpen} onClose={() => setOpen(false)} title={confirm.title}>
          <Stack gap="md">
            <Text size="sm" component="div">
              {confirm.body}
            </Text>
            {command && <Command value={command} />}
            {confirm.word !== undefined && (
              <TextInput
                label={text.typeToConfirm(confirm.word)}
                value={typed}
                data-autofocus
                autoComplete="off"
                onChange={(event) => setTyped(event.currentTarget.value)}
              />
            )}
            <ErrorNotice error={error} />
            <Group justify="flex-end">
              <Button variant="default" onClick={() => setOpen(false)}>
                {text.cancel}
              </Button>
              <Button
                color={button.color ?? "red"}
                loading={isBusy}
                disabled={confirm.word !== undefined && typed !== confirm.word}
                onClick={() => void act()}
              >
                {label}
              </Button>
            </Group>
          </Stack>
        </Modal>
      )}
    </>
  );
}

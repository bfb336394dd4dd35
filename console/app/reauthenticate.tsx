import { Modal, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { text as common } from "../text/common.ts";
import { text } from "../text/sign-in.ts";
import { Command } from "../ui/code.tsx";
import { type SessionAnswer, SignInForm } from "./sign-in-form.tsx";
import { useVisitor } from "./visitor.ts";

interface ReauthenticateProps {
  /** What the user wants to do. */
  readonly action: string;
  readonly onEnd: (isDone: boolean) => void;
}

/** Dialog in which the user signs in again. */
export function Reauthenticate({ action, onEnd }: ReauthenticateProps): ReactNode {
  const { me } = useVisitor();
  const entered = async ({ uid }: SessionAnswer) => {
    // Another account signed in: discard this page.
    if (uid !== me.uid) location.reload();
    else onEnd(true);
  };
  return (
    <Modal
      opened
      onClose={() => onEnd(false)}
      title={text.signInAgain}
      closeButtonProps={{ "aria-label": common.cancel }}
      zIndex={400}
    >
      <Text size="sm" mb="md">
        {text.whyAgain(action)}
      </Text>
      <SignInForm email={me.email ?? undefined} onEntered={entered} />
      <Text size="sm" c="dimmed" mt="md">
        {text.noneOfThese}
      </Text>
      <Command value="stoker auth link" />
    </Modal>
  );
}

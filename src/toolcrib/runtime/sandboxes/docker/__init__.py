"""Full CPython in containers of a Docker-compatible engine, with the kernel of the host or with gVisor's."""

from toolcrib.runtime.sandboxes.docker.sandbox import DockerSandbox, GvisorSandbox

__all__ = ["DockerSandbox", "GvisorSandbox"]

"""The commands `phased demo`, `report`, `gather`, `lipread` and `pack`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from phased.cli import answers
from phased.cli.errors import RESUMES, need, plain_errors, plain_warnings, print_line, writable
from phased.cli.options import Lines, ModelOut, SkipBad, command, named, path

Results = Annotated[Path, path("--results", metavar="DIR", help="The folder of the results.")]
Out = Annotated[Path, path("--out", metavar="DIR", help="The folder for page and pictures; created if needed.")]
VideoFiles = Annotated[
    list[Path],
    typer.Argument(metavar="CLIP...", help="Video files of GRID, or folders with such files.", show_default=False, parser=named),
]
ReaderModel = Annotated[
    Path | None,
    path("--model", metavar="FOLDER", help="The model. Default: the one for two speakers of GRID that comes with phased."),
]
VideoOnly = Annotated[bool, typer.Option("--video-only", help="Use the face alone.")]
AudioOnly = Annotated[bool, typer.Option("--audio-only", help="Use the voice alone.")]
Align = Annotated[
    Path | None,
    path("--align", metavar="FILE-OR-FOLDER", help="Alignments with the times of words. Default: times are found."),
]
ClipPicture = Annotated[
    Path | None,
    path("--picture", metavar="FILE", help="Draw faces, sound, gates and words of one clip: .png, .svg or .pdf."),
]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="The name of a finished run, of digits or of lip reading.", show_default=False)
]
DataOfRun = Annotated[
    Path | None, path("--data", metavar="FOLDER", help="Of lip reading: the data of the run. Default: PHASED_DATA.")
]
Tested = Annotated[
    Path | None,
    path("--test", metavar="FOLDER", help="Recordings of a camera, one folder per class, to measure the accuracy on."),
]


@command()
def demo(out: Out = Path("out")) -> None:
    """Train three networks on irregular samples, stream events through them, and make a page (one minute)."""
    need("matplotlib", "lab")
    need("altair", "lab")
    from phased_lab.cli.demo import demo as show

    console = Console()
    with plain_errors(RESUMES), plain_warnings(console):
        summary = show(console, writable(out))
    if summary.failed:
        raise typer.Exit(1)


@command()
def report(results: Results = Path("results"), out: Out = Path("out")) -> None:
    """Draw the results and make one page of them; nothing is trained or measured."""
    need("altair", "lab")
    with plain_errors():
        folder = writable(out)
    from phased_lab.bench.charts import figures
    from phased_lab.report.page import save_report
    from phased_lab.runs.folder import read

    console = Console()
    with plain_errors(), plain_warnings(console):
        reading = read(results)
        files = save_report(reading.records, reading.skipped, results, folder, figures(results / "bench"))
    for file in files:
        print_line(console, f"  {file}")


@command()
def gather(results: Results = Path("results")) -> None:
    """Move the results of single runs into one sorted file per study, the form for version control."""
    from phased_lab.runs.folder import gather as into_studies

    console = Console()
    with plain_errors(), plain_warnings(console):
        gathered = into_studies(results)
        for file, count in gathered.items():
            print_line(console, f"  {file}: {count}")
        if not gathered:
            print_line(console, f"There are no results in '{results}'.")


@command()
def lipread(
    clips: VideoFiles,
    model: ReaderModel = None,
    video_only: VideoOnly = False,
    audio_only: AudioOnly = False,
    align: Align = None,
    json: Lines = False,
    skip_bad: SkipBad = False,
    picture: ClipPicture = None,
) -> None:
    """Recognise the words of clips of GRID, from the speaker's face and voice."""
    need("av", "lab")
    need("cv2", "lab")
    if picture is not None:
        need("matplotlib", "lab")
    if video_only and audio_only:
        raise typer.BadParameter("--video-only and --audio-only exclude each other. Leave one of them out.")
    from phased_lab.cli.lipread import Lips
    from phased_lab.lipreader import LipReader
    from phased_lab.lipreader.folder import SHIPPED

    sense = "video" if video_only else "audio" if audio_only else "both"
    inputs = [model or SHIPPED, *([align] if align and align.is_file() else [])]
    options: dict[str, Any] = {"json": json, "skip_bad": skip_bad, "sense": sense, "align": align}
    answers.run(Lips, lambda: LipReader.load(model), clips, picture, inputs, **options)


@command()
def pack(run: RunName, out: ModelOut, results: Results = Path("results"), test: Tested = None, data: DataOfRun = None) -> None:
    """Make a model for `phased classify` or `phased lipread` from the checkpoint of a finished run."""
    from phased_lab.cli.pack import pack as make

    console = Console()
    with plain_errors(), plain_warnings(console):
        make(console, run, results, out, test, data)
